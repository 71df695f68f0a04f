package queue

import (
	"testing"
	"time"
)

// A link that carries so many tasks in time, and no more, stays silent ever more seldom, and is used well between.
// Once it is quick, the appetite is whole again soon.
// Holds: promise 26.
func TestTheAppetiteLearnsWhatALinkCarries(t *testing.T) {
	const most = 2 * time.Second
	for _, carries := range []int{1, 3, 60, 400, maxBatch - 1} {
		a := newAppetite()
		silences, tasks := 0, 0
		const fetches = 3000
		for range fetches {
			if a.tasks > carries {
				silences++
				a.starve()
				continue
			}
			tasks += a.tasks
			a.feed(most*time.Duration(a.tasks)/time.Duration(carries), most)
		}
		if silences > 25 {
			t.Errorf("a link that carries %d: %d silences in %d fetches", carries, silences, fetches)
		}
		if tasks < fetches*carries/4 {
			t.Errorf("a link that carries %d: only %d tasks in %d fetches", carries, tasks, fetches)
		}
		for range 12 {
			a.feed(most/100, most)
		}
		if a != newAppetite() {
			t.Errorf("a link that is quick now: %+v", a)
		}
	}
}
