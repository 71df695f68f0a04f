package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// Whatever locks rows does so in one order: everything that there is to do, at once and on few keys, and no call is
// undone in favour of another, but for callers' transactions of several calls, which must be tried again.
func TestNothingWaitsForEachOther(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	stores := []*store.Store{open(t, c), open(t, c)}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	var meddlers []*meddler
	for i := range 8 {
		m := &meddler{t: t, s: stores[i%2], w: joined(t, stores[i%2]), address: c.URL.String(), ns: c.Namespace, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		meddlers = append(meddlers, m)
		all.Go(func() {
			for ctx.Err() == nil {
				// The call that is under way when the time is over is not cut short.
				if err := m.meddle(t.Context()); err != nil {
					t.Errorf("meddler %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	// What still runs is nobody's: all of it comes back, and is worked off.
	for _, m := range meddlers {
		if err := m.s.Queue.Deregister(t.Context(), m.w); err != nil {
			t.Fatal(err)
		}
	}
	maintainAll(t, stores[0])
	w := joined(t, stores[0])
	for idle := 0; idle < 3; {
		f, err := stores[0].Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q", "r"}, Max: 100, Suspects: true, Crashers: true})
		if err != nil {
			t.Fatal(err)
		}
		if complete(t, stores[0].Queue, w, f.Tasks...); len(f.Tasks) > 0 {
			idle = 0
			continue
		}
		all, err := stores[0].Tasks.Tasks(t.Context(), driver.Filter{States: []task.State{task.Available, task.Blocked}, Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			return
		}
		idle++
		if idle == 3 {
			t.Errorf("task %d is %s, and no fetch gives it", all[0].ID, all[0].State)
		}
	}
}

func maintainAll(t *testing.T, s *store.Store) {
	t.Helper()
	for more := true; more; {
		r, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Repaired != 0 {
			t.Errorf("repaired %d", r.Repaired)
		}
		more = r.More
	}
}

// meddler does one thing after the other.
type meddler struct {
	t           *testing.T
	s           *store.Store
	w           lease.Ref
	address, ns string
	rng         *rand.Rand
	runs        []driver.Fetched
}

func (m *meddler) meddle(ctx context.Context) (err error) {
	switch m.rng.IntN(12) {
	case 0, 1, 2:
		_, err = m.s.Queue.Enqueue(ctx, m.specs())
	case 3, 4, 5:
		var f driver.Fetch
		f, err = m.s.Queue.Fetch(ctx, driver.FetchRequest{Worker: m.w, Queues: []string{"q", "r"}, Max: 1 + m.rng.IntN(20), Suspects: true, Crashers: true})
		m.runs = append(m.runs, f.Tasks...)
	case 6, 7, 8:
		_, err = m.s.Queue.Finish(ctx, m.w, m.ends())
	case 9:
		err = m.act(ctx)
	case 10:
		_, err = m.s.Queue.Maintain(ctx, driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0}})
	case 11:
		err = m.inTransaction(ctx)
	}
	return err
}

func (m *meddler) specs() (specs []task.Spec) {
	for range 1 + m.rng.IntN(8) {
		s := task.Spec{Queue: string("qr"[m.rng.IntN(2)]), Kind: "k", Args: []byte("1"), Priority: m.rng.IntN(3)}
		if m.rng.IntN(2) == 0 {
			s.Unique = &task.Unique{Key: fmt.Sprint("u", m.rng.IntN(4)), Until: task.UntilStarted}
			s.Unique.Again = []task.Again{task.Refuse, task.Replace, task.Debounce}[m.rng.IntN(3)]
			s.Delay = time.Duration(m.rng.IntN(20)) * time.Millisecond
		}
		if m.rng.IntN(2) == 0 {
			s.Limit = &task.Limit{Key: fmt.Sprint("l", m.rng.IntN(3)), Max: 1 + m.rng.IntN(2)}
			s.Limit.OnContention = []task.Contention{task.Wait, task.Wait, task.Discard, task.Displace}[m.rng.IntN(4)]
		}
		specs = append(specs, s)
	}
	return specs
}

func (m *meddler) ends() (ends []driver.Completion) {
	n := min(len(m.runs), 1+m.rng.IntN(10))
	for _, r := range m.runs[:n] {
		v := []driver.Verdict{driver.Success, driver.Success, driver.Retry, driver.Fail, driver.Return, driver.Snooze}[m.rng.IntN(6)]
		ends = append(ends, driver.Completion{Ref: r.Ref, Verdict: v, Outcome: "failed"})
	}
	m.runs = m.runs[n:]
	return ends
}

func (m *meddler) act(ctx context.Context) error {
	some, err := m.s.Tasks.Tasks(ctx, driver.Filter{Max: 1000})
	if err != nil || len(some) == 0 {
		return err
	}
	a := driver.OpRequest{Operation: []driver.Operation{driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit, driver.OpDelete}[m.rng.IntN(7)], Queue: "r"}
	for range 10 {
		a.IDs = append(a.IDs, some[m.rng.IntN(len(some))].ID)
	}
	_, err = m.s.Tasks.Operate(ctx, a)
	return err
}

// inTransaction is a transaction of a caller's. What its two calls lock is in no order, so it may be undone; then it
// is tried again, as by any caller.
func (m *meddler) inTransaction(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, m.address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	specs, ends := m.specs(), m.ends()
	for n := 1; ; n++ {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			x := QueueTx(tx, m.ns)
			if _, err := x.Enqueue(ctx, specs); err != nil {
				return err
			}
			_, err := x.Finish(ctx, m.w, ends)
			return err
		})
		if !refused(err, "40P01") || n == 5 {
			return err
		}
	}
}
