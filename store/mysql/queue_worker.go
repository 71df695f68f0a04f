package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// worker is a row of a worker, whose lease may be live.
type worker struct {
	id   int64
	live bool
	driver.Process
}

func readWorker(r *sql.Rows) (w worker, err error) {
	var key, owner, does []byte
	var since int64
	if err = r.Scan(&w.id, &key, &owner, &w.Lease.Token, &w.Host, &w.PID, &does, &w.Slots, &since, &w.live, &w.Running); err != nil {
		return w, err
	}
	w.Since, w.Lease.Key = instant(since), lease.Key(key)
	w.Lease.Owner = parseNonce(owner)
	var lists [2][]string
	fromJSON(does, &lists)
	w.Queues, w.Kinds = lists[0], lists[1]
	return w, nil
}

// member is what this process knows of a worker of its own.
type member struct {
	id int64

	mu    sync.Mutex
	slots map[task.ID]slot // of tasks that were given to it: a hint, which spares their end a round trip
}

// mostSlots is how many slots a member remembers: more than any worker has tasks. Slots of tasks that a caller's
// transaction has ended stay until then.
const mostSlots = 5000

// took remembers the slots of tasks.
func (m *member) took(tasks []driver.Fetched) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slots == nil || len(m.slots)+len(tasks) > mostSlots {
		m.slots = map[task.ID]slot{}
	}
	for _, t := range tasks {
		if t.Limit != nil {
			m.slots[t.ID] = slot{t.Limit.Hash(t.Kind), subQueueNumber(subQueueName{t.Queue, t.Kind})}
		}
	}
}

// freed is how many of each slot the ends free, as far as it is known.
func (m *member) freed(ends []driver.Completion) map[slot]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[slot]int{}
	for _, c := range ends {
		if s, ok := m.slots[c.ID]; ok {
			all[s]++
		}
	}
	return all
}

// part is how many of the ends, from the first on, free slots of mostKeys limits at most, as far as it is known.
func (m *member) part(ends []driver.Completion) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := map[task.Hash]bool{}
	for i, c := range ends {
		if s, ok := m.slots[c.ID]; ok {
			limits[s.limit] = true
		}
		if len(limits) > mostKeys {
			return i
		}
	}
	return len(ends)
}

// forget drops the slots of tasks that have ended.
func (m *member) forget(ends []driver.Completion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range ends {
		delete(m.slots, c.ID)
	}
}

// A slot is what a task under a limit takes, and the next task of its sub-queue gets when it ends.
type slot struct {
	limit task.Hash
	sub   int64
}

// member is a worker with its row, made where it never joined.
func (q queues) member(ctx context.Context, ref lease.Ref) (*member, error) {
	if known, ok := q.known.workers.Load(ref); ok {
		return known.(*member), nil
	}
	m := new(member)
	p := new(packet).add("worker-id", q.ns, nonce(ref.Owner), int64(ref.Token), []byte(ref.Key))
	if err := q.run(ctx, p, func(r *sql.Rows) error { return r.Scan(&m.id) }); err != nil {
		return nil, err
	}
	known, _ := q.known.workers.LoadOrStore(ref, m)
	return known.(*member), nil
}

func (q queues) workerID(ctx context.Context, ref lease.Ref) (int64, error) {
	m, err := q.member(ctx, ref)
	if err != nil {
		return 0, err
	}
	return m.id, nil
}

// processes reads what workers said of themselves.
func (b *txn) processes(ids ...int64) error {
	var missing list
	for _, id := range ids {
		if _, ok := b.workers[id]; !ok && id != 0 {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return b.ask(func(p *packet) []reader {
		p.add("workers").add("workers-by-id", b.q.ns, missing)
		return []reader{b.readWorker}
	})
}

func (b *txn) readWorker(r *sql.Rows) error {
	w, err := readWorker(r)
	b.workers[w.id] = w
	return err
}

// process is what a worker said of itself.
func (b *txn) process(id int64) (driver.Process, error) {
	err := b.processes(id)
	w := b.workers[id].Process
	w.Running = 0
	return w, err
}

// there are the workers that have not left, and were not found dead.
func (b *txn) there() (all []worker, err error) {
	err = b.ask(func(p *packet) []reader {
		p.add("workers").add("workers-there", b.q.ns, b.q.ns, b.q.ns)
		return []reader{func(r *sql.Rows) error {
			w, err := readWorker(r)
			b.workers[w.id] = w
			all = append(all, w)
			return err
		}}
	})
	return all, err
}

// Register fulfils driver.Store.
func (q queues) Register(ctx context.Context, w driver.Process) error {
	id, err := q.workerID(ctx, w.Lease)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return q.step(ctx, func(b *txn) error {
		live, err := b.live(w.Lease)
		if err != nil {
			return err
		}
		if !live {
			return driver.ErrStale
		}
		b.joins = append(b.joins, func(p *packet) {
			p.add("join-worker", text(w.Host), w.PID, toJSON([2][]string{w.Queues, w.Kinds}), w.Slots, id)
		})
		return nil
	})
}

// Deregister fulfils driver.Store.
func (q queues) Deregister(ctx context.Context, ref lease.Ref) error {
	id, err := q.workerID(ctx, ref)
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for passed := (passing{}); ; {
		_, _, more, err := q.rescue(ctx, id, chunk, passed)
		if err != nil || !more {
			q.known.workers.Delete(ref)
			return err
		}
	}
}

// rescue takes tasks from a worker that is gone, most at most, and says whether there may be more. If there are none,
// the worker has ended. What a transaction of a caller's has is left to who maintains.
func (q queues) rescue(ctx context.Context, id int64, most int, passed passing) (rescued, crashed int, more bool, err error) {
	before, asked := len(passed), most+len(passed)
	err = q.step(ctx, func(b *txn) error {
		all, err := b.find("tasks-held", b.q.ns, id, asked)
		if err != nil {
			return err
		}
		if err := b.lockTheirs(); err != nil {
			return err
		}
		if rescued, crashed, err = b.rescueAll(id, all, passed); err != nil {
			return err
		}
		more = len(all) == asked
		passed.note(b)
		if !more && len(passed) == 0 {
			b.joins = append(b.joins, func(p *packet) { p.add("end-worker", id) })
		}
		return nil
	})
	return rescued, crashed, more && passed.some() && (rescued+crashed > 0 || len(passed) > before), err
}

func (b *txn) rescueAll(id int64, all []*taskRow, passed passing) (rescued, crashed int, err error) {
	for _, t := range b.fresh(all) {
		if b.locked[t.ID] || passed[t.ID] || t.State != task.Running || t.worker != id {
			continue
		}
		if err := b.change(t, func() lifecycle.Note { return t.Rescue(b.now) }); err != nil {
			return rescued, crashed, err
		}
		if t.State == task.Crashed {
			crashed++
		} else {
			rescued++
		}
	}
	return rescued, crashed, nil
}

// passing are tasks that other transactions have: what is done to many goes on behind them.
type passing map[task.ID]bool

func (p passing) note(b *txn) { maps.Copy(p, b.locked) }

// some says that they are few enough to look behind them.
func (p passing) some() bool { return len(p) <= mostPassed }

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
