package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
)

// paused says whether a pause holds for a sub-queue.
func (d *queueState) paused(at subQueueName, now time.Time) bool {
	for _, p := range []subQueueName{{}, {queue: at.queue}, {kind: at.kind}, at} {
		if x, found := d.pauses[p]; found && holdsAt(x, now) {
			return true
		}
	}
	return false
}

func holdsAt(p driver.Pause, now time.Time) bool { return p.Until.IsZero() || now.Before(p.Until) }

func (a admin) Pause(ctx context.Context, p driver.Pause) error {
	_, err := on(ctx, a.queueState, func(now time.Time) any {
		p.Since, p.Until = now, micro(p.Until)
		a.pauses[subQueueName{p.Queue, p.Kind}] = p
		kind, reason := p.Event()
		a.record(kind, reason, now)
		return nil
	})
	return err
}

func (a admin) Resume(ctx context.Context, name, kind, by string) (ok bool, err error) {
	return on(ctx, a.queueState, func(now time.Time) bool {
		at := subQueueName{name, kind}
		p, found := a.pauses[at]
		delete(a.pauses, at)
		if !found || !holdsAt(p, now) {
			return false
		}
		event, reason := driver.ResumeEvent(name, kind, by)
		a.record(event, reason, now)
		for watched := range a.hints {
			a.hint(watched)
		}
		return true
	})
}

func (a admin) Pauses(ctx context.Context) ([]driver.Pause, error) {
	return on(ctx, a.queueState, func(now time.Time) []driver.Pause {
		var out []driver.Pause
		for _, p := range a.pauses {
			if holdsAt(p, now) {
				out = append(out, p)
			}
		}
		slices.SortFunc(out, func(x, y driver.Pause) int {
			return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
		})
		return out
	})
}

func (a admin) Rates(ctx context.Context) (map[string]driver.RateStatus, error) {
	return on(ctx, a.queueState, func(time.Time) map[string]driver.RateStatus {
		all := map[string]driver.RateStatus{}
		for kind, r := range a.rates {
			all[kind] = r.RateStatus()
		}
		return all
	})
}

func (q tasks) Watch(ctx context.Context, queues []string) (<-chan struct{}, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	// One waiting hint is as good as many.
	c := make(chan struct{}, 1)
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	for _, name := range queues {
		if q.hints[name] == nil {
			q.hints[name] = map[chan struct{}]bool{}
		}
		q.hints[name][c] = true
	}
	context.AfterFunc(ctx, func() {
		q.b.mu.Lock()
		defer q.b.mu.Unlock()
		for _, name := range queues {
			delete(q.hints[name], c)
		}
	})
	return c, nil
}

// hint wakes the watchers of a queue.
func (d *queueState) hint(name string) {
	for c := range d.hints[name] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
