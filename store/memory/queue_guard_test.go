package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A step's comparisons and changes do not grow with the tasks that there are, or that are due at one instant: counted
// in comparisons of two tasks, which is what a heap is made of.
// Holds: promise 26.
func TestAFetchIsBoundedBesideManyTasks(t *testing.T) {
	n := testsize.Of(5000, 1_000_000)
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{MaxTTL: 1000 * time.Hour})
		s := b.Store()
		ctx := t.Context()
		a, err := s.Leases.Acquire(ctx, []lease.AcquireRequest{{Key: "w", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: 1000 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		w, compared := a.Answers[0].Record.Ref(), 0
		counting := func(p *taskHeap) {
			before := p.before
			p.before = func(x, y *taskRow) bool { compared++; return before(x, y) }
		}
		for _, p := range []*taskHeap{&b.queues.expiry, &b.queues.windows} {
			counting(p)
		}
		for _, p := range b.queues.ended {
			counting(p)
		}
		fill := func(s0 task.Spec) {
			t.Helper()
			for i := 0; i < n; i += 1000 {
				specs := make([]task.Spec, 1000)
				for j := range specs {
					specs[j] = s0.Clone()
				}
				if err := specs[0].Check(); err != nil {
					t.Fatal(err)
				}
				for j := range specs {
					specs[j] = specs[0].Clone()
				}
				if _, err := s.Queue.Enqueue(ctx, specs); err != nil {
					t.Fatal(err)
				}
			}
		}
		fill(task.Spec{Queue: "q", Kind: "k"})
		fill(task.Spec{Queue: "q", Kind: "other"})
		fill(task.Spec{Queue: "due", Kind: "k", Delay: time.Hour})
		fill(task.Spec{Queue: "expires", Kind: "k", ExpiresAt: time.Now().Add(time.Hour)})
		fill(task.Spec{Queue: "limited", Kind: "k", Limit: &task.Limit{Key: "l"}})
		for _, l := range b.queues.subs {
			counting(&l.due)
			for i := range l.ready {
				counting(&l.ready[i])
			}
		}
		depth := func(queueName string, states ...task.State) (n int) {
			for _, x := range b.queues.tasks {
				for _, s := range states {
					if x.Queue == queueName && x.State == s {
						n++
					}
				}
			}
			return n
		}
		step := func(what string, tasks int, do func()) {
			t.Helper()
			compared = 0
			do()
			t.Logf("%-40s %6d comparisons", what, compared)
			const each = 150 // in heaps of a million: one out and one in
			if compared > tasks*each {
				t.Errorf("%s: %d comparisons, more than %d", what, compared, tasks*each)
			}
		}
		fetch := func(queueName string, most int) (f driver.Fetch) {
			t.Helper()
			if f, err = s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{queueName}, Kinds: []string{"k"}, Max: most}); err != nil || f.Gone {
				t.Fatalf("%+v, %v", f, err)
			}
			return f
		}
		var f driver.Fetch
		step("enqueue one", 1, func() { _, err = s.Queue.Enqueue(ctx, []task.Spec{{Queue: "q", Kind: "k"}}) })
		step("fetch ten", 10, func() { f = fetch("q", 10) })
		step("finish ten", 10, func() {
			for _, x := range f.Tasks {
				_, err = s.Queue.Finish(ctx, w, []driver.Completion{{Ref: x.Ref, Verdict: driver.Success}})
			}
		})
		step("a fetch that finds nothing", 1, func() { fetch("none", 10) })
		step("fetch one of a limit", 2, func() { f = fetch("limited", 10) })
		if len(f.Tasks) != 1 {
			t.Errorf("%d were given of a limit of one", len(f.Tasks))
		}
		time.Sleep(2 * time.Hour)
		step("fetch of what is due at one instant", 2*mostAtOnce, func() { f = fetch("due", 10) })
		if left := depth("due", task.Scheduled); len(f.Tasks) != 10 || left != n-mostAtOnce || f.NextDue.After(f.Now) {
			t.Errorf("%d were given, %d are left as they were, the next is due at %v", len(f.Tasks), left, f.NextDue)
		}
		step("fetch of what has expired", 2*mostAtOnce, func() { f = fetch("expires", 10) })
		if left := depth("expires", task.Available); left != n-mostAtOnce || f.NextDue.After(f.Now) || f.NextDue.IsZero() {
			t.Errorf("%d are left as they were, the next fetch is at %v", left, f.NextDue)
		}
		for range min(n/1000, 10) {
			fetch("q", 1000)
		}
		if _, err = s.Leases.Release(ctx, []lease.Ref{w}); err != nil {
			t.Fatal(err)
		}
		step("a step of a rescue", 2*mostAtOnce, func() {
			d, err := s.Queue.Maintain(ctx, driver.MaintainRequest{})
			if err != nil || d.Rescued != 1000 || !d.More {
				t.Errorf("%+v, %v", d, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
