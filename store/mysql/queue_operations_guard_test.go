package mysql

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
// Holds: promise 26.
func TestEachOperationIsBoundedBesideManyNeighbours(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(10_000, 200_000)
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	db := raw(t, c.URL.String(), nil)
	ctx := t.Context()
	t.Cleanup(func() { unlike(db, c.Namespace) })
	one := func(with ...func(*queue.Spec)) task.ID { return enqueue(t, s.Queue, spec(with...))[0].ID }
	const some = 10
	acted := make([]task.ID, some)
	for i := range acted {
		acted[i] = one(kindOf("acted"), func(s *queue.Spec) { s.Delay = time.Hour })
	}
	like(t, db, acted[0], n, nil)
	like(t, db, one(), n, nil)
	like(t, db, one(func(s *queue.Spec) { s.Queue = "r" }), n, nil)
	like(t, db, one(limitOf("l", 1)), n, map[string]string{"state": "2"})
	low := -1
	for round := range 2 { // what is learnt once is learnt in the first
		for _, a := range []driver.OpRequest{{Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}, {Operation: driver.OpPromote}, {Operation: driver.OpMove, Queue: "moved"},
			{Operation: driver.OpCancel}, {Operation: driver.OpRetry}, {Operation: driver.OpDiscard}, {Operation: driver.OpRetry}} {
			a.IDs = acted
			act := func() {
				got, err := s.Tasks.Operate(ctx, a)
				if err != nil || len(got) != some || got[0].Answer != driver.Done {
					t.Errorf("%s: %+v, %v", a.Operation, got, err)
				}
			}
			if round == 0 {
				act()
				continue
			}
			s.took(string(a.Operation)+" 10", some*each, act)
		}
	}
	s.took("a page of a list", 2*looked+100*each, func() {
		if got, err := s.Tasks.Tasks(ctx, driver.Filter{Queue: "q", States: task.Waits(true), Max: 100}); err != nil || len(got) != 100 {
			t.Errorf("%d, %v", len(got), err)
		}
	})
	w := joined(t, s.Store)
	f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"r"}, Max: 1})
	if err != nil || len(f.Tasks) != 1 {
		t.Fatal(f, err)
	}
	complete(t, s.Queue, w, f.Tasks...)
	done := f.Tasks[0].ID
	like(t, db, done, 3000, nil)
	deleted := 0
	for range 20 {
		s.took("a sweep, with retention", 1000*each, func() {
			r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0}})
			if deleted += r.Deleted; err != nil {
				t.Fatal(err)
			}
		})
	}
	if deleted != 3001 {
		t.Errorf("%d of 3,001 were deleted", deleted)
	}
}
