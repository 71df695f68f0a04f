package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A killed server that syncs its log always has all that it acknowledged (rule Q8), and what was under way when it
// died is completed once. With everysec that is so as well, unless the disk is slow just then: Redis puts off
// writing while a sync takes long, which no test can rely on not to happen.
// Holds: Q8.
func TestQueueSurvivesTheServersDeath(t *testing.T) {
	t.Parallel()
	server := ownServer(t) // it syncs always
	c := config(t, server.URL)
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	l := &ledger{t: t, s: s, worker: joined(t, s, time.Hour), enqueued: map[task.ID]bool{}, done: map[task.ID]lease.Token{}}

	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		all.Go(func() { l.enqueueUntil(stop, i) })
	}
	for range 2 {
		all.Go(func() { l.workUntil(stop) })
	}
	for round := range 3 {
		waitFor(t, "work to be under way", func() bool { return l.count() > (round+1)*300 })
		server.Restart()
	}
	close(stop)
	all.Wait()
	reopened(t, s)
	wantHeldBack(t, s, "k") // and so are the slots of limits
	set(t, c, "hold_until", 1)
	l.workOff()

	for id := range l.enqueued {
		if l.done[id] == 0 {
			t.Fatalf("task %d was acknowledged and never done", id)
		}
	}
	for after := task.ID(0); ; {
		page, err := s.Tasks.Tasks(t.Context(), driver.Filter{After: after, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			if after = x.ID; x.State != task.Succeeded || x.Attempts != 1 || x.Token != l.done[x.ID] {
				t.Fatalf("task %d: %s after %d attempts under token %d, completed under %d", x.ID, x.State, x.Attempts, x.Token, l.done[x.ID])
			}
		}
	}
	if len(l.enqueued) < 900 {
		t.Errorf("only %d tasks were acknowledged", len(l.enqueued))
	}
}

// A ledger is what was acknowledged to those who enqueue and work.
type ledger struct {
	t      *testing.T
	s      *store.Store
	worker lease.Ref

	mu       sync.Mutex
	enqueued map[task.ID]bool
	done     map[task.ID]lease.Token
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.enqueued)
}

func over(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func (l *ledger) enqueueUntil(stop chan struct{}, i int) {
	for n := 0; !over(stop); n++ {
		specs := make([]task.Spec, 20)
		for k := range specs {
			specs[k] = task.Spec{Queue: "q", Kind: "k", Unique: &task.Unique{Key: fmt.Sprint(i, n, k)}}
			if k%5 == 0 {
				specs[k].Limit = &task.Limit{Key: fmt.Sprint(k), Max: 50}
			}
			if err := specs[k].Check(); err != nil {
				l.t.Error(err)
				return
			}
		}
		answers, err := l.s.Queue.Enqueue(l.t.Context(), specs)
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the server is being restarted
			continue
		}
		l.mu.Lock()
		for _, a := range answers {
			l.enqueued[a.ID] = true
		}
		l.mu.Unlock()
	}
}

func (l *ledger) workUntil(stop chan struct{}) {
	for !over(stop) {
		if _, err := l.work(); err != nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// workOff also ends what was fetched by requests whose answers were lost.
func (l *ledger) workOff() {
	for {
		n, err := l.work()
		if err != nil {
			l.t.Fatal(err)
		}
		if n > 0 {
			continue
		}
		mine, err := l.s.Queue.Running(l.t.Context(), l.worker, false)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(mine) == 0 {
			return
		}
		refs := make([]driver.Ref, len(mine))
		for i, m := range mine {
			refs[i] = m.Ref
		}
		l.finish(refs)
	}
}

func (l *ledger) work() (int, error) {
	f, err := l.s.Queue.Fetch(l.t.Context(), driver.FetchRequest{Worker: l.worker, Queues: []string{"q"}, Max: 50})
	if err != nil {
		return 0, err
	}
	refs := make([]driver.Ref, len(f.Tasks))
	for i := range f.Tasks {
		refs[i] = f.Tasks[i].Ref
	}
	if len(refs) > 0 {
		l.finish(refs)
	}
	return len(refs), nil
}

// finish repeats until it is answered, as a worker does.
func (l *ledger) finish(refs []driver.Ref) {
	ends := make([]driver.Completion, len(refs))
	for i, ref := range refs {
		ends[i] = driver.Completion{Ref: ref, Verdict: driver.Success}
	}
	for {
		answers, err := l.s.Queue.Finish(l.t.Context(), l.worker, ends)
		if err != nil {
			if l.t.Context().Err() != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, a := range answers {
			ref := refs[i]
			if before := l.done[ref.ID]; a != driver.OK || before != 0 {
				l.t.Errorf("task %d: answered %d under token %d; before under %d", ref.ID, a, ref.Token, before)
			}
			l.done[ref.ID] = ref.Token
		}
		return
	}
}

// A wiped server is found out by whoever uses it first: leases are held back from then on (rule L9), so no
// worker of before can fetch or finish anything, and none is there anew.
// Holds: L9, Q8.
func TestQueueAfterFlush(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	w := joined(t, s, ttl)
	id := enqueue(t, s, task.Spec{Queue: "q", Kind: "k"})[0].ID
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 1})
	if err != nil || len(f.Tasks) != 1 {
		t.Fatalf("fetch: %+v, %v", f, err)
	}
	if err := rawClient(t, c).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, task.Spec{Queue: "q", Kind: "k"}, task.Spec{Queue: "q", Kind: "k"})
	wantHeldBack(t, s, "k")
	if f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 1}); err != nil || !f.Gone || len(f.Tasks) != 0 {
		t.Errorf("fetch after the flush: %+v, %v", f, err)
	}
	a, err := s.Queue.Finish(t.Context(), w, []driver.Completion{{Ref: f.Tasks[0].Ref, Verdict: driver.Success}})
	if err != nil || a[0] != driver.Gone {
		t.Errorf("finish of a task of before: %v, %v", a, err)
	}
	if x, _, ok, err := s.Tasks.Task(t.Context(), id); err != nil || !ok || x.State != task.Available {
		t.Errorf("the new task that has its id: %+v, %v, %v", x, ok, err)
	}
	if open(t, c).Properties.InstallationID == s.Properties.InstallationID {
		t.Error("a wiped store is not the same installation")
	}
}

func enqueue(t testing.TB, s *store.Store, specs ...task.Spec) []task.Enqueued {
	t.Helper()
	for i := range specs {
		if err := specs[i].Check(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := s.Queue.Enqueue(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
