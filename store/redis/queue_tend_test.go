package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// A task that was retried and ended again stands twice in the list by which tasks are retired; the earlier place must
// not keep the others.
func TestRetriedTasksHoldUpNoRetention(t *testing.T) {
	s, c := prepared(t, ownServer(t).URL)
	w := joined(t, s, ttl)
	end := func(want int, v queue.Verdict) {
		t.Helper()
		f, err := s.Queue.Fetch(t.Context(), queue.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
		if err != nil || len(f.Tasks) != want {
			t.Fatalf("fetch: %+v, %v", f.Tasks, err)
		}
		var ends []queue.Completion
		for _, x := range f.Tasks {
			ends = append(ends, queue.Completion{Ref: x.Ref, Verdict: v})
		}
		if _, err := s.Queue.Finish(t.Context(), w, ends); err != nil {
			t.Fatal(err)
		}
	}
	one := queue.Spec{Queue: "q", Kind: "k"}
	ids := enqueue(t, s, one, one, one)
	end(3, queue.Success)
	before := storeNow(t, s)
	time.Sleep(300 * time.Millisecond) // the server's clock is ours: what ends now is that much younger
	if a, err := s.Tasks.Act(t.Context(), queue.Action{Act: queue.ActRetry, IDs: []queue.ID{ids[0].ID}}); err != nil || a[0].Answer != queue.Done {
		t.Fatalf("retry: %+v, %v", a, err)
	}
	end(1, queue.Success)
	keep := map[queue.State]time.Duration{queue.Succeeded: storeNow(t, s).Sub(before.Add(50 * time.Millisecond))}
	if r, err := s.Queue.Tend(t.Context(), queue.TendRequest{Keep: keep}); err != nil || r.Deleted != 2 || r.More {
		t.Errorf("tend: %+v, %v; want the two that were not retried deleted", r, err)
	}
	left := rawClient(t, c).LLen(t.Context(), "dibs:{"+c.Namespace+"}:ended:6").Val()
	if left < 1 || left > 2 {
		t.Errorf("%d places in the list, want those of the one that is there", left)
	}
	keep[queue.Succeeded] = 0
	time.Sleep(time.Millisecond)
	if r, err := s.Queue.Tend(t.Context(), queue.TendRequest{Keep: keep}); err != nil || r.Deleted != 1 {
		t.Errorf("tend: %+v, %v; want the last one deleted", r, err)
	}
}

// A worker with less to do than its rate allows is told when it may go on, else it would poll for it.
func TestARateSaysWhenItLetsGo(t *testing.T) {
	s, _ := prepared(t, ownServer(t).URL)
	w := joined(t, s, ttl)
	if err := s.Queue.Declare(t.Context(), map[string]queue.Rate{"k": {Count: 1, Per: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	one := queue.Spec{Queue: "q", Kind: "k"}
	enqueue(t, s, one, one)
	f, err := s.Queue.Fetch(t.Context(), queue.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
	if err != nil || len(f.Tasks) != 1 || !f.NextDue.Equal(f.Now.Add(time.Minute)) {
		t.Errorf("fetch: %d tasks, next at %v, %v; want one, and the next in a minute from %v", len(f.Tasks), f.NextDue, err, f.Now)
	}
}
