package tick_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/tick"
)

// What is written of past definitions is read back: each with its time, and none reaches beyond the beginning of the
// one in force, which may have been moved back.
func TestDefinitions(t *testing.T) {
	at := func(min int) time.Time { return time.Date(2026, 1, 1, 0, min, 0, 0, time.UTC) }
	known := tick.Job{Name: "app/j", Definition: "now", Generation: 4, Since: at(30), Mark: at(5)}
	known.Past = tick.EncodePast([]tick.Job{{Definition: `"a"`, Since: at(0), Until: at(10)}, {Definition: "b", Since: at(10), Until: at(30)}})
	all, err := known.Definitions()
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v %v", all, err)
	}
	for i, want := range []tick.Job{
		{Name: "app/j", Definition: `"a"`, Generation: 4, Since: at(0), Until: at(10), Mark: at(5)},
		{Name: "app/j", Definition: "b", Generation: 4, Since: at(10), Until: at(30), Mark: at(5)}, known,
	} {
		if all[i] != want {
			t.Errorf("%d: %+v, want %+v", i, all[i], want)
		}
	}
	known.Since = at(10)
	if all, err = known.Definitions(); err != nil || len(all) != 2 || !all[0].Until.Equal(at(10)) {
		t.Errorf("brought back to the end of the first: %+v %v", all, err)
	}
	known.Past = "{"
	if all, err = known.Definitions(); err == nil || len(all) != 1 || all[0].Definition != "now" {
		t.Errorf("of a past that cannot be read: %+v %v", all, err)
	}
	if tick.EncodePast(nil) != "" {
		t.Error("no past is not the empty text")
	}
}
