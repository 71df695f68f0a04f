package postgres

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// An operator's act, and retention, cost no more than their own tasks, or a bounded number of others, beside many
// tasks of every sort.
// Holds: promise 26, Q5.
func TestEachOperationIsBoundedBesideManyNeighbours(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(6000, 200_000)
	c := config(t, database(t, testserver.Postgres(t)))
	first := countedStore(t, c)
	s := countedStore(t, c, first)
	ctx := t.Context()
	kinds := []string{"due", "given", "limited", "other"}
	of := func(kind string, with ...func(*queue.Spec)) func(int) queue.Spec {
		return func(int) queue.Spec { return spec(append(with, kindOf(kind))...) }
	}
	later := func(s *queue.Spec) { s.Delay = time.Hour }
	due := enqueue(t, first.Queue, of("due", later)(0))[0].ID
	fill(t, first.Store, n, of("due", later))
	fill(t, first.Store, n, of("other"))
	fill(t, first.Store, n, of("elsewhere", func(s *queue.Spec) { s.Queue = "r" }))
	fill(t, first.Store, n, of("limited", limitOf("l", 2*n)))
	sql := superuser(t, c.URL.String())
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := sql.Exec(ctx, text, args...); err != nil {
			t.Fatal(err)
		}
	}
	w := joined(t, first.Store)
	fetch := func(kind string, most int) driver.Fetch {
		t.Helper()
		f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"q"}, Kinds: []string{kind}, Max: most, Suspects: true, Crashers: true})
		if err != nil || f.Gone {
			t.Fatalf("fetch: %+v, %v", f, err)
		}
		return f
	}
	for _, kind := range kinds { // what is learnt once
		fetch(kind, 1)
	}
	const step = bound * each

	s.took("a limit that is lowered", step, func() {
		if ok, err := s.Tasks.SetLimit(ctx, (&queue.Limit{Key: "l"}).Hash("limited"), 1, "me"); err != nil || !ok {
			t.Errorf("%v, %v", ok, err)
		}
	})
	s.took("pause and resume", 2*each, func() {
		if err := s.Tasks.Pause(ctx, driver.Pause{Queue: "q", By: "me"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Tasks.Resume(ctx, "q", "", "me"); err != nil {
			t.Error(err)
		}
	})
	low := -1
	const some = 10
	for _, a := range []driver.OpRequest{{Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}, {Operation: driver.OpPromote}, {Operation: driver.OpMove, Queue: "moved"},
		{Operation: driver.OpCancel}, {Operation: driver.OpRetry}, {Operation: driver.OpDiscard}, {Operation: driver.OpDelete}} {
		for i := range some {
			a.IDs = append(a.IDs, due+task.ID(1+i))
		}
		s.took(string(a.Operation)+" 10", some*each, func() {
			got, err := s.Tasks.Operate(ctx, a)
			if err != nil || len(got) != some || got[0].Answer != driver.Done {
				t.Errorf("%s: %+v, %v", a.Operation, got, err)
			}
		})
	}
	for _, f := range []driver.Filter{{States: []task.State{task.Failed, task.Crashed}}, {States: []task.State{task.Succeeded}, Since: time.Now().Add(time.Hour)}} {
		f.Newest = true
		s.took("a list of what there is none of", 100, func() {
			if got, err := s.Tasks.Tasks(ctx, f); err != nil || len(got) != 0 {
				t.Errorf("%d, %v", len(got), err)
			}
		})
	}
	s.took("the newest page of a list", 4*looked, func() {
		if got, err := s.Tasks.Tasks(ctx, driver.Filter{Queue: "q", States: task.Waits(true), Max: 100, Newest: true}); err != nil || len(got) != 100 {
			t.Errorf("%d, %v", len(got), err)
		}
	})
	s.took("a page of a list", 4*looked, func() {
		if got, err := s.Tasks.Tasks(ctx, driver.Filter{Queue: "q", States: task.Waits(true), Max: 100}); err != nil || len(got) != 100 {
			t.Errorf("%d, %v", len(got), err)
		}
	})

	run("UPDATE dibs.tasks SET due = dibs.now_us() - 1000000 WHERE due > dibs.now_us()")
	run("VACUUM dibs.tasks") // time alone would have left nothing dead
	s.took("a fetch when all are due at one instant", step, func() {
		if f := fetch("due", 10); len(f.Tasks) != 10 {
			t.Errorf("%d are given", len(f.Tasks))
		}
	})
	s.took("a sweep when all are due at one instant", step, func() {
		if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Due == 0 || !r.More {
			t.Errorf("%+v, %v", r, err)
		}
	})

	var given []driver.Fetched
	for range 3 {
		given = append(given, fetch("other", 1000).Tasks...)
	}
	complete(t, s.Queue, w, given[1000:]...)
	s.took("leave of a worker that has 1,000", step, func() {
		if err := s.Queue.Deregister(ctx, w); err != nil {
			t.Error(err)
		}
	})
	w = joined(t, first.Store)
	deleted := 0
	for range 2 * n / bound * 4 {
		s.took("a sweep, with retention", step, func() {
			r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0}})
			if deleted += r.Deleted; err != nil {
				t.Fatal(err)
			}
		})
		if deleted == 2000 {
			return
		}
	}
	t.Errorf("%d of 2,000 were deleted", deleted)
}
