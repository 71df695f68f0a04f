package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A task that was retried and ended again stands twice in the list by which tasks are retired; the earlier entry must
// not keep the others.
func TestRetriedTasksHoldUpNoRetention(t *testing.T) {
	t.Parallel()
	url := ownServer(t).URL
	for apart := 100 * time.Millisecond; !retriedHoldUpNothing(t, url, apart); apart *= 3 {
	}
}

// retriedHoldUpNothing has a retried task end so much later than the others. It reports false if Maintain came too
// late to tell them apart.
func retriedHoldUpNothing(t *testing.T, url string, apart time.Duration) bool {
	s, c := prepared(t, url)
	w := joined(t, s, ttl)
	end := func(want int, v driver.Verdict) {
		t.Helper()
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
		if err != nil || len(f.Tasks) != want {
			t.Fatalf("fetch: %+v, %v", f.Tasks, err)
		}
		var ends []driver.Completion
		for _, x := range f.Tasks {
			ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: v})
		}
		if _, err := s.Queue.Finish(t.Context(), w, ends); err != nil {
			t.Fatal(err)
		}
	}
	one := task.Spec{Queue: "q", Kind: "k"}
	ids := enqueue(t, s, one, one, one)
	end(3, driver.Success)
	before := storeNow(t, s)
	isPast(before.Add(apart))
	if a, err := s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpRetry, IDs: []task.ID{ids[0].ID}}); err != nil || a[0].Answer != driver.Done {
		t.Fatalf("retry: %+v, %v", a, err)
	}
	end(1, driver.Success)
	keep := map[task.State]time.Duration{task.Succeeded: storeNow(t, s).Sub(before)}
	r, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{Keep: keep})
	if err == nil && r.Now.Add(-keep[task.Succeeded]).After(before.Add(apart)) {
		return false
	}
	if err != nil || r.Deleted != 2 || r.More {
		t.Errorf("maintain: %+v, %v; want the two that were not retried deleted", r, err)
	}
	left := rawClient(t, c).LLen(t.Context(), "dibs:{"+c.Namespace+"}:ended:6").Val()
	if left < 1 || left > 2 {
		t.Errorf("%d entries in the list, want those of the one that is there", left)
	}
	keep[task.Succeeded] = 0
	isPast(storeNow(t, s))
	if r, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{Keep: keep}); err != nil || r.Deleted != 1 {
		t.Errorf("maintain: %+v, %v; want the last one deleted", r, err)
	}
	return true
}

// A worker with less to do than its rate allows is told when it may go on, else it would poll for it.
func TestARateSaysWhenItLetsGo(t *testing.T) {
	t.Parallel()
	s, _ := prepared(t, ownServer(t).URL)
	w := joined(t, s, ttl)
	if err := s.Queue.Declare(t.Context(), map[string]task.Rate{"k": {Count: 1, Per: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	one := task.Spec{Queue: "q", Kind: "k"}
	enqueue(t, s, one, one)
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
	if err != nil || len(f.Tasks) != 1 || !f.NextDue.Equal(f.Now.Add(time.Minute)) {
		t.Errorf("fetch: %d tasks, next at %v, %v; want one, and the next in a minute from %v", len(f.Tasks), f.NextDue, err, f.Now)
	}
}
