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

// flushWithin is how long Close waits for the program's observer.
const flushWithin = time.Second

// beside has f called beside the work, and nothing wait for it (promise 27), but for flush at the end. It is nil if f
// is.
func beside(f func(observe.Event), log *slog.Logger) (_ observe.Func, flush func()) {
	if f == nil {
		return nil, func() {}
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
	}, func() { queue.Flush(flushWithin) }
}

// observed has the work of a lock observed, which locked does under the lock.
func (c *Client) observed(key string, work lease.Work, locked func(lease.Work) error) error {
	e, asked := observe.Event{On: observe.Skipped, Of: observe.Lock, Name: key, Outcome: "canceled"}, time.Now()
	defer func() { c.observe(e) }() // also when the work panics
	err := locked(func(ctx context.Context, l *lease.Lease) (err error) {
		began := time.Now()
		c.observe(observe.Event{On: observe.Started, Of: observe.Lock, Name: key, Wait: began.Sub(asked)})
		e.On, e.Outcome, e.Wait = observe.Ended, "failed", began.Sub(asked)
		defer func() { e.Took = time.Since(began) }()
		if err = work(ctx, l); err == nil {
			e.Outcome = "succeeded"
		}
		return err
	})
	switch ran := e.On == observe.Ended; {
	case errors.Is(err, lease.ErrLost):
		e.Outcome = "lost"
	case !ran && errors.Is(err, lease.ErrHeld):
		e.Outcome = "held"
	case !ran && errors.Is(err, lease.ErrUnavailable):
		e.Outcome = "unavailable"
	}
	if e.On == observe.Skipped {
		e.Wait, e.Reason = time.Since(asked), err.Error() // it is ours, not the work's
	}
	return err
}
