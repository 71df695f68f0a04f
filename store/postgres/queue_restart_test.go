package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// The server is killed, and comes back, while batches are under way: what was acknowledged is there, as a task
// or as one that was done; what was acknowledged as done is done, and given to nobody again. A fetch may be
// forgotten: then its task is given again, and its first token completes nothing (rule Q4).
// Holds: Q4.
func TestAServerThatIsKilledLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	srv := testserver.StartPostgres(t)
	c := config(t, srv.URL)
	s := open(t, c)
	r := &restarts{t: t, s: s, new: map[task.ID]bool{}, done: map[task.ID]bool{}}
	for range 3 {
		r.w = joined(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { r.enqueue(ctx) })
			all.Go(func() { r.work(ctx) })
		}
		for began := r.count(); r.count() < began+200 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		srv.Restart() // a kill and a start
		cancel()
		all.Wait()
		s = open(t, c) // a connection that the kill has broken is found out by a call that fails
		r.s = s
	}
	r.check()
}

// restarts is what was acknowledged.
type restarts struct {
	t    *testing.T
	s    *store.Store
	w    lease.Ref
	mu   sync.Mutex
	new  map[task.ID]bool
	done map[task.ID]bool
}

func (r *restarts) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done)
}

func (r *restarts) enqueue(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := r.s.Queue.Enqueue(ctx, []task.Spec{spec(), spec(), spec(limitOf("l", 2))})
		if err != nil {
			return
		}
		r.mu.Lock()
		for _, e := range got {
			r.new[e.ID] = true
		}
		r.mu.Unlock()
	}
}

func (r *restarts) work(ctx context.Context) {
	for ctx.Err() == nil {
		f, err := r.s.Queue.Fetch(ctx, driver.FetchRequest{Worker: r.w, Queues: []string{"q"}, Max: 50, Suspects: true, Crashers: true})
		if err != nil {
			return
		}
		ends := column(f.Tasks, func(x driver.Fetched) driver.Completion {
			return driver.Completion{Ref: x.Ref, Verdict: driver.Success}
		})
		r.mu.Lock()
		for _, e := range ends {
			if r.done[e.ID] {
				r.t.Errorf("task %d is given after it was acknowledged as done", e.ID)
			}
		}
		r.mu.Unlock()
		st, err := r.s.Queue.Finish(ctx, r.w, ends)
		if err != nil {
			return
		}
		r.mu.Lock()
		for i := range st {
			r.done[ends[i].ID] = r.done[ends[i].ID] || st[i] == driver.OK
		}
		r.mu.Unlock()
	}
}

func (r *restarts) check() {
	there := map[task.ID]task.State{}
	for after := task.ID(0); ; {
		some, err := r.s.Tasks.Tasks(r.t.Context(), driver.Filter{After: after, Max: 1000})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		for _, x := range some {
			there[x.ID], after = x.State, x.ID
		}
	}
	for id := range r.new {
		if there[id] == "" {
			r.t.Errorf("task %d was acknowledged, and is lost", id)
		}
	}
	for id, done := range r.done {
		if done && there[id] != task.Succeeded {
			r.t.Errorf("task %d was acknowledged as done, and is %q", id, there[id])
		}
	}
	r.t.Logf("%d tasks, %d done", len(r.new), len(r.done))
}
