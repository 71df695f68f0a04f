package lease

import (
	"testing"
	"time"
)

// Rule L9: the time in which nobody can begin counts against nobody's deadline, and no other time is added.
func TestDeadlinesAreExtendedByTheHoldBack(t *testing.T) {
	k, err := NewKeeper(Options{Store: struct{ Store }{}})
	if err != nil {
		t.Fatal(err)
	}
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }
	if got := k.Extend(at(0), at(5)); !got.Equal(at(5)) {
		t.Errorf("without a hold-back: %s", got)
	}
	k.sawHoldBack(at(103), at(110)) // it began 15 s before its end
	for name, c := range map[string]struct{ due, deadline, want float64 }{
		"before it began":                {80, 90, 90},
		"due before, open when it began": {90, 100, 115},
		"due in it":                      {100, 100.5, 110.5},
		"due at its end":                 {110, 111, 111},
		"due after":                      {120, 125, 125},
	} {
		if got := k.Extend(at(c.due), at(c.deadline)); !got.Equal(at(c.want)) {
			t.Errorf("%s: %s, want %s", name, got, at(c.want))
		}
	}
	if got := k.Extend(at(100), time.Time{}); !got.IsZero() {
		t.Errorf("no deadline became %s", got)
	}
	k.sawHoldBack(at(108), at(121)) // the store was restarted once more before the end
	k.sawHoldBack(at(109), at(120)) // and this answer is older
	if since, until := k.HeldBack(); !since.Equal(at(95)) || !until.Equal(at(121)) {
		t.Errorf("from %s until %s", since, until)
	}
	k.sawHoldBack(at(200), at(260)) // a longer one, of which the beginning was not seen
	if since, until := k.HeldBack(); !since.Equal(at(200)) || !until.Equal(at(260)) {
		t.Errorf("from %s until %s", since, until)
	}
}
