package dibs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
)

// observedSize is how many bytes an event counts for while it waits for the program's observer, with its short texts.
const observedSize = 256

// beside has f called beside the work, and nothing wait for it (promise 27). It is nil if f is.
func beside(f func(observe.Event), log *slog.Logger) observe.Func {
	if f == nil {
		return nil
	}
	queue := &aside.Queue{Missing: func(n map[string]int) {
		log.Warn("the observer missed events, because it has not taken earlier ones", "event", "observer-behind", "times", n["event"])
	}}
	return func(e observe.Event) {
		queue.Do("event", observedSize+len(e.Name)+len(e.Reason), func() {
			defer func() {
				if p := recover(); p != nil {
					log.Error("the observer panicked", "event", "observer-panicked", "panic", fmt.Sprint(p))
				}
			}()
			f(e)
		})
	}
}

// observed has the work of a lock observed, which locked does under the lock.
func (c *Client) observed(key string, work lease.Work, locked func(lease.Work) error) error {
	e, asked := observe.Event{On: observe.Skipped, Of: observe.Lock, Name: key, Outcome: "failed"}, time.Now()
	defer func() { // also when the work panics
		if e.On == observe.Skipped {
			e.Wait = time.Since(asked)
		} else {
			e.Took = time.Since(asked) - e.Wait
		}
		c.observe(e)
	}()
	err := locked(func(ctx context.Context, l *lease.Lease) error {
		e.On, e.Wait = observe.Ended, time.Since(asked)
		c.observe(observe.Event{On: observe.Started, Of: observe.Lock, Name: key, Wait: e.Wait})
		return work(ctx, l)
	})
	switch ran := e.On == observe.Ended; {
	case err == nil:
		e.Outcome = "succeeded"
	case errors.Is(err, lease.ErrLost):
		e.Outcome = "lost"
	case !ran && errors.Is(err, lease.ErrHeld):
		e.Outcome = "held"
	case !ran && errors.Is(err, lease.ErrUnavailable):
		e.Outcome = "unavailable"
	}
	return err
}
