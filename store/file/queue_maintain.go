//go:build linux

package file

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// mostAtOnce bounds the tasks that one transaction changes, and the rows that it forgets. A fetch makes half as many
// due and ends half as many beside those that it gives. Nobody else on the host writes meanwhile, which is to take no
// longer than 50 ms (BenchmarkLongestStep). Only a batch that is enqueued may be larger. Tests take smaller steps.
var mostAtOnce = 400

const (
	// mostLooked bounds the sub-queues, workers or limits that a step looks at.
	mostLooked = 200
	// mostLimits bounds the limits whose tasks a step changes.
	mostLimits = 100

	countsKept  = 7 * 24 * time.Hour
	workersKept = 30 * 24 * time.Hour // as long as tasks may tell who had them
	limitsKept  = 24 * time.Hour      // after their last use
)

// workerID is the row of a worker, made where it never joined.
func (b *txn) workerID(ref lease.Ref) (id int64, err error) {
	for id, w := range b.workers {
		if w.Lease == ref {
			return id, nil
		}
	}
	if err = b.scan("worker_id", []any{string(ref.Key), ref.Owner.String(), int64(ref.Token)}, &id); err == nil {
		_, err = b.process(id)
	}
	return id, err
}

// process is what a worker said of itself.
func (b *txn) process(id int64) (driver.Process, error) {
	if w, ok := b.workers[id]; ok || id == 0 {
		return w, nil
	}
	all, err := rows(b, readWorker, "worker_get", id)
	if err == nil && len(all) > 0 {
		b.workers[id] = all[0].Process
	}
	return b.workers[id], err
}

type worker struct {
	id int64
	driver.Process
}

func readWorker(row scanner) (w worker, err error) {
	var owner, does string
	var since int64
	if err = row.Scan(&w.id, &w.Lease.Key, &owner, &w.Lease.Token, &w.Host, &w.PID, &does, &w.Slots, &since); err != nil {
		return w, err
	}
	w.Since = instantOf(since)
	if w.Lease.Owner, err = lease.ParseNonce(owner); err != nil {
		return w, err
	}
	var lists [2][]string
	err = json.Unmarshal([]byte(does), &lists)
	w.Queues, w.Kinds = lists[0], lists[1]
	return w, err
}

// Register fulfils driver.Store.
func (q queues) Register(ctx context.Context, w driver.Process) error {
	return q.db.step(ctx, func(b *txn) error {
		live, err := b.live(w.Lease)
		if err != nil {
			return err
		}
		if !live {
			return driver.ErrStale
		}
		id, err := b.workerID(w.Lease)
		if err != nil {
			return err
		}
		does, err := json.Marshal([2][]string{w.Queues, w.Kinds})
		if err != nil {
			return err
		}
		return b.exec("worker_join", w.Host, w.PID, string(does), w.Slots, micros(b.now), id)
	})
}

// Deregister fulfils driver.Store.
func (q queues) Deregister(ctx context.Context, ref lease.Ref) (err error) {
	for more := true; more && err == nil; {
		more, err = q.leave(ctx, ref)
	}
	return err
}

// leave is one step of it.
func (q queues) leave(ctx context.Context, ref lease.Ref) (more bool, err error) {
	err = q.db.step(ctx, func(b *txn) error {
		id, err := b.workerID(ref)
		if err != nil {
			return err
		}
		if _, _, more, err = b.rescueAll(id, mostAtOnce); err != nil || more {
			return err
		}
		return b.exec("worker_end", micros(b.now), id)
	})
	return more, err
}

// rescueAll takes tasks from a worker that is gone, at most most, and says whether it may have more.
func (b *txn) rescueAll(id int64, most int) (rescued, crashed int, more bool, err error) {
	all, err := rows(b, func(row scanner) (a driver.RunningTask, err error) { return a, row.Scan(&a.ID, &a.Token, &a.Stop) }, "running", id, most)
	for n, a := range all {
		if b.full(n) {
			return rescued, crashed, true, nil
		}
		t, err := b.get(a.ID)
		if err != nil {
			return rescued, crashed, true, err
		}
		if t.aside {
			continue
		}
		if err := b.change(t, func() lifecycle.Note { return t.Rescue(b.now) }); err != nil {
			return rescued, crashed, true, err
		}
		if t.State == task.Crashed {
			crashed++
		} else {
			rescued++
		}
	}
	return rescued, crashed, len(all) == most, err
}

// Maintain fulfils driver.Store.
func (q queues) Maintain(ctx context.Context, r driver.MaintainRequest) (out driver.Maintained, err error) {
	if r.Max <= 0 || r.Max > mostAtOnce {
		r.Max = mostAtOnce
	}
	err = q.db.step(ctx, func(b *txn) error {
		t := maintenance{txn: b, left: r.Max, Maintained: driver.Maintained{Now: b.now}}
		for _, part := range []func() error{t.dead, t.expired, t.due, t.freed, func() error { return t.deleted(r.Keep) }, t.forget, t.unused, t.rounds} {
			if err := part(); err != nil {
				return err
			}
		}
		t.More = t.More || t.left <= 0
		out = t.Maintained
		return nil
	})
	return out, err
}

// maintenance is one call of Maintain.
type maintenance struct {
	*txn
	driver.Maintained
	left int // how many tasks it may still touch
}

func (t *maintenance) dead() error {
	turn := &t.db.turns.worker
	there, err := rows(t.txn, readWorker, "workers_there", turn.Load(), mostLooked)
	if err != nil {
		return err
	}
	if len(there) < mostLooked {
		defer turn.Store(0)
	}
	for _, w := range there {
		if t.left <= 0 {
			return nil
		}
		live, err := t.live(w.Lease)
		if err != nil {
			return err
		}
		if live {
			turn.Store(w.id)
			continue
		}
		rescued, crashed, more, err := t.rescueAll(w.id, t.left)
		if err != nil {
			return err
		}
		t.Rescued, t.Crashed, t.left = t.Rescued+rescued, t.Crashed+crashed, t.left-rescued-crashed
		if more {
			t.left = 0
		}
		if w.Running = rescued + crashed; w.Running > 0 {
			t.Dead = append(t.Dead, w.Process)
		}
		if t.left > 0 {
			if err := t.exec("worker_end", micros(t.now), w.id); err != nil {
				return err
			}
			turn.Store(w.id)
		}
	}
	return nil
}

// every does one thing to the tasks that a statement finds, and counts them.
func (t *maintenance) every(n *int, do func(*taskRow) error, name string, args ...any) error {
	if t.left <= 0 {
		return nil
	}
	ids, err := rows(t.txn, readID, name, append(args, t.left)...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if len(t.limits) >= mostLimits {
			t.left = 0
			return nil
		}
		x, err := t.get(id)
		if err == nil && !x.aside {
			err = do(x)
		}
		if err != nil {
			return err
		}
		*n++
		t.left--
	}
	return nil
}

func (t *maintenance) expired() error {
	return t.every(&t.Expired, func(x *taskRow) error { return t.discard(x, task.ReasonExpired) }, "expired", micros(t.now))
}

func (t *maintenance) due() error {
	turn := &t.db.turns.sub
	subs, err := rows(t.txn, readSubQueue, "subqueues", turn.Load(), mostLooked)
	if len(subs) < mostLooked {
		defer turn.Store(0)
	}
	for _, l := range subs {
		if t.left <= 0 {
			return nil
		}
		if err := t.every(&t.Due, t.wait, "due", l.id, micros(t.now)); err != nil {
			return err
		}
		turn.Store(l.id + 1)
	}
	return err
}

func (t *maintenance) freed() error {
	unlock := func(x *taskRow) error { return t.change(x, func() lifecycle.Note { return x.LoseKey(t.now) }) }
	return t.every(&t.Freed, unlock, "windows", micros(t.now))
}

// deleted is retention. What holds its key in a window is not old (rule Q1).
func (t *maintenance) deleted(keep map[task.State]time.Duration) error {
	for s, d := range keep {
		if !s.Final() {
			continue
		}
		if err := t.every(&t.Deleted, t.remove, "old", lifecycle.Number(s), micros(t.now.Add(-d))); err != nil {
			return err
		}
	}
	return nil
}

// forget drops old counters, and old workers.
func (t *maintenance) forget() error {
	if err := t.exec("counts_forget", micros(t.now.Add(-countsKept)), mostAtOnce); err != nil {
		return err
	}
	return t.exec("workers_forget", micros(t.now.Add(-workersKept)), mostAtOnce)
}

// unused forgets limits that nobody has used for long, unless an operator's word stands on one (rule Q5).
func (t *maintenance) unused() error {
	type look struct {
		id     int64
		unused bool
	}
	turn := &t.db.turns.unused
	read := func(row scanner) (l look, err error) { return l, row.Scan(&l.id, &l.unused) }
	some, err := rows(t.txn, read, "limits_from", micros(t.now.Add(-limitsKept)), turn.Load(), mostLooked)
	if err != nil {
		return err
	}
	for _, l := range some {
		turn.Store(l.id + 1)
		if !l.unused {
			continue
		}
		if err := t.exec("limit_forget", l.id); err != nil {
			return err
		}
		delete(t.limits, l.id)
	}
	if len(some) < mostLooked {
		turn.Store(0)
	}
	return nil
}

// rounds goes on with limits that earlier steps have not brought to all of their sub-queues.
func (t *maintenance) rounds() (err error) {
	t.More, err = t.goOn()
	return err
}
