package coalesce

import (
	"testing"
	"time"
)

// A server that takes 10 ms for each item is never asked for more than it can do in time for long, and a quick
// one soon for as much as there is.
// Holds: L4.
func TestWidthFindsWhatAServerCanDo(t *testing.T) {
	for _, c := range []struct {
		each        time.Duration
		least, most int
	}{{10 * time.Millisecond, 8, 199}, {10 * time.Microsecond, 500, 500}, {time.Second, 1, 2}} {
		w := NewWidth(500, 2*time.Second)
		unanswered := 0
		for range 20 {
			n := w.Now()
			took := time.Duration(n) * c.each
			if took > 2*time.Second {
				unanswered++
			}
			w.Learn(n, took, took <= 2*time.Second)
		}
		if n := w.Now(); n < c.least || n > c.most {
			t.Errorf("%s an item: %d at a time", c.each, n)
		}
		if unanswered > 4 && c.each < time.Second {
			t.Errorf("%s an item: %d batches were not answered", c.each, unanswered)
		}
	}
}

// A batch that was not full says nothing of a larger one.
func TestASmallBatchWidensNothing(t *testing.T) {
	w := NewWidth(500, 2*time.Second)
	before := w.Now()
	if n := w.Learn(before/2, time.Millisecond, true); n != before {
		t.Errorf("it is %d, and was %d", n, before)
	}
}
