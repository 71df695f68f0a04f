package schedule

import (
	"testing"
	"time"
)

// The last Friday of a month may be its last day, or lie up to six days before that.
func TestTheLastWeekdayOfAMonth(t *testing.T) {
	s, err := Parse("0 0 * * FRIL", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 400 * 12 {
		next, ok := s.Next(at)
		if !ok || next.Weekday() != time.Friday || next.AddDate(0, 0, 7).Month() == next.Month() || next.Sub(at) > 36*24*time.Hour {
			t.Fatalf("after %s: %s", at, next)
		}
		at = next
	}
}
