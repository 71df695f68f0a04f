package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

func (a admin) Queues(ctx context.Context) ([]driver.SubQueue, error) {
	return on(ctx, a.queueState, func(now time.Time) []driver.SubQueue {
		subs := map[subQueueName]*driver.SubQueue{}
		sub := func(at subQueueName) *driver.SubQueue {
			if subs[at] == nil {
				subs[at] = &driver.SubQueue{Queue: at.queue, Kind: at.kind, Depth: map[task.State]int{}}
			}
			return subs[at]
		}
		for _, t := range a.tasks {
			l := sub(subQueueName{t.Queue, t.Kind})
			l.Depth[t.State]++
			if (t.State == task.Available || t.State == task.Blocked) && (l.Oldest.IsZero() || t.RunAt.Before(l.Oldest)) {
				l.Oldest = t.RunAt
			}
		}
		for at := range a.pauses {
			if at.queue != "" && at.kind != "" && a.paused(at, now) {
				sub(at)
			}
		}
		out := make([]driver.SubQueue, 0, len(subs))
		for _, l := range subs {
			out = append(out, *l)
		}
		slices.SortFunc(out, func(x, y driver.SubQueue) int {
			return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
		})
		return out
	})
}

func (a admin) Workers(ctx context.Context) ([]driver.Process, error) {
	return on(ctx, a.queueState, func(now time.Time) []driver.Process {
		var out []driver.Process
		for ref, w := range a.workers {
			if a.b.live(ref, now) {
				c := cloneWorker(w.Process)
				c.Running = len(w.running)
				out = append(out, c)
			}
		}
		slices.SortFunc(out, func(x, y driver.Process) int {
			return cmp.Or(strings.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
		})
		return out
	})
}

func (a admin) Tasks(ctx context.Context, f driver.Filter) ([]driver.Task, error) {
	return on(ctx, a.queueState, func(time.Time) []driver.Task {
		var out []driver.Task
		from, _ := slices.BinarySearch(a.ids, f.After+1)
		to, _ := slices.BinarySearch(a.ids, task.ID(f.End()))
		for ids := a.ids[from:max(from, to)]; len(ids) > 0 && len(out) < f.Rows(); {
			id := ids[0]
			if f.Newest {
				id, ids = ids[len(ids)-1], ids[:len(ids)-1]
			} else {
				ids = ids[1:]
			}
			if t := a.tasks[id]; t != nil && t.Matches(&f) {
				out = append(out, t.told())
			}
		}
		return out
	})
}

func (a admin) Task(ctx context.Context, id task.ID) (t driver.Task, held driver.Slots, ok bool, err error) {
	_, err = on(ctx, a.queueState, func(time.Time) any {
		row := a.tasks[id]
		if ok = row != nil; !ok {
			return nil
		}
		t = row.told()
		t.History = slices.Clone(row.History)
		if row.limit != nil {
			held = row.limit.slots()
		}
		return nil
	})
	return t, held, ok, err
}

// slots says how far l is used.
func (l *limit) slots() driver.Slots {
	s := driver.Slots{Key: l.key, Max: l.Max, Waiting: l.waiting()}
	for _, t := range l.running {
		s.Running = append(s.Running, driver.Holding{ID: t.ID, Kind: t.Kind, Worker: cloneWorker(t.Worker), Since: t.Started})
	}
	slices.SortFunc(s.Running, func(x, y driver.Holding) int { return cmp.Compare(x.ID, y.ID) })
	return s
}

func (a admin) SetLimit(ctx context.Context, key task.Hash, slots int, by string) (ok bool, err error) {
	return on(ctx, a.queueState, func(now time.Time) bool {
		l := a.limits[key]
		if l != nil {
			l.says(a.queueState, slots, by, now)
		}
		return l != nil
	})
}

func (a admin) Limits(ctx context.Context) ([]driver.Word, error) {
	return on(ctx, a.queueState, func(time.Time) (words []driver.Word) {
		for h, l := range a.limits {
			if l.Stands() {
				words = append(words, driver.Word{Hash: h, Key: l.key, Max: l.Max, Declared: l.Declared, By: l.By, Since: l.Since})
			}
		}
		slices.SortFunc(words, func(x, y driver.Word) int {
			return cmp.Or(strings.Compare(x.Key, y.Key), bytes.Compare(x.Hash[:], y.Hash[:]))
		})
		return words[:min(len(words), 1000)]
	})
}

func (q tasks) Count(ctx context.Context, counts []driver.Count) error {
	_, err := on(ctx, q.queueState, func(time.Time) any {
		for _, c := range counts {
			n := c.N
			c.Minute, c.N = micro(c.Minute).Truncate(time.Minute), 0
			q.counts[c] += n
		}
		return nil
	})
	return err
}

func (a admin) Counts(ctx context.Context, from, to time.Time) ([]driver.Count, error) {
	return on(ctx, a.queueState, func(time.Time) []driver.Count {
		sums := map[driver.Count]int64{}
		for c, n := range a.counts {
			if !c.Minute.Before(from) && c.Minute.Before(to) {
				c.Minute = time.Time{}
				sums[c] += n
			}
		}
		out := make([]driver.Count, 0, len(sums))
		for c, n := range sums {
			c.N = n
			out = append(out, c)
		}
		slices.SortFunc(out, func(x, y driver.Count) int {
			return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name))
		})
		return out
	})
}
