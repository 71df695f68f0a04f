package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// kept is how long counters are kept.
const kept = 7 * 24 * time.Hour

// worker is the record of a worker, made where it never joined.
func (d *queueState) worker(ref lease.Ref) *worker {
	w := d.workers[ref]
	if w == nil {
		w = &worker{Process: driver.Process{Lease: ref}, running: map[task.ID]*taskRow{}}
		d.workers[ref] = w
	}
	return w
}

func cloneWorker(w driver.Process) driver.Process {
	w.Queues, w.Kinds = slices.Clone(w.Queues), slices.Clone(w.Kinds)
	return w
}

func (q tasks) Register(ctx context.Context, w driver.Process) error {
	gone, err := on(ctx, q.queueState, func(now time.Time) error {
		if !q.b.live(w.Lease, now) {
			return driver.ErrStale
		}
		mine := q.worker(w.Lease)
		since := mine.Since
		if since.IsZero() {
			since = now
		}
		mine.Process = cloneWorker(w)
		mine.Since, mine.Running = since, 0
		return nil
	})
	return cmp.Or(err, gone)
}

func (q tasks) Deregister(ctx context.Context, ref lease.Ref) error {
	_, err := on(ctx, q.queueState, func(now time.Time) any {
		if w := q.workers[ref]; w != nil {
			for _, t := range w.tasks() {
				q.rescue(t, now)
			}
			delete(q.workers, ref)
		}
		return nil
	})
	return err
}

// tasks are those that the worker has, by id.
func (w *worker) tasks() []*taskRow {
	all := make([]*taskRow, 0, len(w.running))
	for _, t := range w.running {
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y *taskRow) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// rescue takes t from a worker that is gone.
func (d *queueState) rescue(t *taskRow, now time.Time) (crashed bool) {
	d.change(t, now, func() lifecycle.Note { return t.Rescue(now) })
	return t.State == task.Crashed
}

func (q tasks) Maintain(ctx context.Context, r driver.MaintainRequest) (driver.Maintained, error) {
	if r.Max <= 0 {
		r.Max = 1000
	}
	return on(ctx, q.queueState, func(now time.Time) driver.Maintained {
		t := maintenance{queueState: q.queueState, left: r.Max, Maintained: driver.Maintained{Now: now}}
		t.dead()
		t.expired()
		for _, l := range q.subs {
			n := q.makeDue(l, now, t.left)
			t.Due, t.left = t.Due+n, t.left-n
		}
		t.freed()
		t.deleted(r.Keep)
		t.More = t.left <= 0
		for c := range q.counts {
			if c.Minute.Before(now.Add(-kept)) {
				delete(q.counts, c)
			}
		}
		return t.Maintained
	})
}

// maintenance is one call of Maintain.
type maintenance struct {
	*queueState
	driver.Maintained
	left int // how many tasks it may still touch
}

func (t *maintenance) dead() {
	for ref, w := range t.workers {
		if t.b.live(ref, t.Now) {
			continue
		}
		mine := w.tasks()
		for _, x := range mine[:min(len(mine), t.left)] {
			t.left--
			if t.rescue(x, t.Now) {
				t.Crashed++
			} else {
				t.Rescued++
			}
		}
		if n := len(mine) - len(w.running); n > 0 {
			dead := cloneWorker(w.Process)
			dead.Running = n
			t.Dead = append(t.Dead, dead)
		}
		if len(w.running) == 0 {
			delete(t.workers, ref)
		}
	}
}

func (t *maintenance) expired() {
	for x := t.expiry.first(); x != nil && x.Over(t.Now) && t.left > 0; x = t.expiry.first() {
		t.discard(x, task.ReasonExpired, t.Now)
		t.Expired++
		t.left--
	}
}

func (t *maintenance) freed() {
	for x := t.windows.first(); x != nil && x.LostKey(t.Now) && t.left > 0; x = t.windows.first() {
		t.change(x, t.Now, func() lifecycle.Note { return x.LoseKey(t.Now) })
		t.Freed++
		t.left--
	}
}

// deleted is retention. A task whose window is open is not among ended (rule Q1).
func (t *maintenance) deleted(keep map[task.State]time.Duration) {
	for s, d := range keep {
		if !s.Final() {
			continue
		}
		for x := t.ended[s].first(); x != nil && x.Ended.Before(t.Now.Add(-d)) && t.left > 0; x = t.ended[s].first() {
			t.remove(x)
			t.Deleted++
			t.left--
		}
	}
}

// remove forgets a final task.
func (d *queueState) remove(t *taskRow) {
	d.pull(t)
	t.Key = nil
	d.index(t)
	delete(d.tasks, t.ID)
	if len(d.ids) > 2*len(d.tasks)+1000 {
		d.ids = slices.DeleteFunc(d.ids, func(id task.ID) bool { return d.tasks[id] == nil })
	}
}
