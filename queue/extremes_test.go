package queue

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Whatever duration a handler, its Backoff or a task's back-off gives, the next attempt begins no sooner than now,
// and at an instant that every store can hold.
func TestNoPauseIsExtreme(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	fails := errors.New("it failed")
	for _, d := range []time.Duration{math.MinInt64, -time.Hour, -1, 0, 1, time.Hour, math.MaxInt64 - 1, math.MaxInt64} {
		for name, e := range map[string]ended{
			"RetryAfter": {says: read(RetryAfter(d, fails))},
			"Postpone":   {says: read(Postpone(d))},
			"Backoff":    {says: read(fails), pause: d, paused: true},
			"a task's":   {says: read(fails), task: &driver.Fetched{Spec: Spec{Options: Options{Backoff: &Backoff{List: []time.Duration{max(d, 0)}}}}}},
			"a base":     {says: read(fails), task: &driver.Fetched{Spec: Spec{Options: Options{Backoff: &Backoff{Base: max(d, 0), Cap: max(d, 0), Factor: 1000}}}}},
		} {
			if e.task == nil {
				e.task = &driver.Fetched{}
			}
			for _, attempt := range []int{1, 2, 24} {
				e.attempt, e.started, e.ended = attempt, now, now
				c, _ := decide(e)
				if c.Delay < 0 {
					t.Errorf("%s of %v after attempt %d: %v", name, d, attempt, c.Delay)
				}
				if err := task.CheckInstant("due", now.Add(c.Delay)); err != nil {
					t.Errorf("%s of %v after attempt %d: %v", name, d, attempt, err)
				}
			}
		}
	}
}
