package redis

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A cluster refuses what touches two slots: one namespace is one hash tag.
func TestCluster(t *testing.T) {
	server := ownServer(t, "--cluster-enabled", "yes")
	c := config(t, server.URL)
	raw := rawClient(t, c)
	if err := raw.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the cluster", func() bool { return raw.Set(t.Context(), "x", 1, 0).Err() == nil })
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{c.URL.Host}})
	t.Cleanup(func() { _ = client.Close() })
	c.Init, c.URL = true, nil
	s, err := New(t.Context(), client, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })

	heard := watch(t, t.Context(), s, "k")
	held := grantOf(t, s, "k")
	at := storeNow(t, s).Truncate(time.Second)
	claim(t, s, held.Ref(), at)
	rec := run.Record{ID: run.NewID(), Job: "j", Tick: at, Owner: held.Owner, Token: held.Token}
	if a, err := s.Ticks.Start(t.Context(), tick.StartRequest{Run: rec, Claim: held.Ref(), Lease: held.Ref()}); err != nil || a.Status != tick.Won {
		t.Fatalf("start: %+v, %v", a, err)
	}
	rec.Outcome = run.Succeeded
	closed, err := s.Ticks.Close(t.Context(), []tick.CloseRequest{{Run: rec, Claim: held.Ref(), Release: held.Ref()}})
	if err != nil || closed[0].Status != tick.Won || closed[0].Tick.Outcome != run.Succeeded {
		t.Fatalf("close: %+v, %v", closed, err)
	}
	told(t, "the watcher", heard)
	if a := read(t, s, "k"); a.Record.Live(storeNow(t, s)) || a.Record.Token != held.Token {
		t.Errorf("the close did not free the lease: %+v", a)
	}
	if runs, err := s.History.Runs(t.Context(), history.Query{}); err != nil || len(runs) != 1 {
		t.Errorf("runs: %+v, %v", runs, err)
	}
	if r, err := s.Leases.List(t.Context(), "", true); err != nil || len(r.Answers) != 1 || r.Answers[0].Status != lease.OK {
		t.Errorf("list: %+v, %v", r, err)
	}
	queueOnACluster(t, s)
}

// queueOnACluster goes once through all that a task can need.
func queueOnACluster(t *testing.T, s *store.Store) {
	t.Helper()
	w := joined(t, s, ttl)
	signs, err := s.Queue.Watch(t.Context(), []string{"q"})
	if err != nil {
		t.Fatal(err)
	}
	one := queue.Spec{Queue: "q", Kind: "k", Unique: &queue.Unique{Key: "u"}, Limit: &queue.Limit{Key: "l"}}
	if a := enqueue(t, s, one, one); a[0].Answer != queue.New || a[1].Answer != queue.Duplicate {
		t.Fatalf("enqueue: %+v", a)
	}
	told(t, "the worker", signs)
	f, err := s.Queue.Fetch(t.Context(), queue.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
	if err != nil || len(f.Tasks) != 1 {
		t.Fatalf("fetch: %+v, %v", f, err)
	}
	if x, err := s.Queue.Start(t.Context(), w, []queue.Ref{f.Tasks[0].Ref}); err != nil || x[0] != queue.OK {
		t.Fatalf("start: %v, %v", x, err)
	}
	end := queue.Completion{Ref: f.Tasks[0].Ref, Verdict: queue.Fail, Outcome: "failed", Error: "no"}
	if x, err := s.Queue.Finish(t.Context(), w, []queue.Completion{end}); err != nil || x[0] != queue.OK {
		t.Fatalf("finish: %v, %v", x, err)
	}
	id := f.Tasks[0].ID
	if x, err := s.Tasks.Act(t.Context(), queue.Action{Act: queue.ActRetry, IDs: []queue.ID{id}}); err != nil || x[0].Answer != queue.Done {
		t.Fatalf("retry: %+v, %v", x, err)
	}
	if x, slots, ok, err := s.Tasks.Task(t.Context(), id); err != nil || !ok || len(x.History) != 1 || slots.Key != "l" {
		t.Errorf("task: %+v, %+v, %v, %v", x, slots, ok, err)
	}
	if x, err := s.Tasks.Queues(t.Context()); err != nil || len(x) != 1 || x[0].Depth[queue.Available] != 1 {
		t.Errorf("queues: %+v, %v", x, err)
	}
	if x, err := s.Tasks.Tasks(t.Context(), queue.Filter{Unique: "u"}); err != nil || len(x) != 1 {
		t.Errorf("tasks: %+v, %v", x, err)
	}
	if err := s.Queue.Leave(t.Context(), w); err != nil {
		t.Error(err)
	}
	if _, err := s.Queue.Tend(t.Context(), queue.TendRequest{Keep: map[queue.State]time.Duration{queue.Failed: 0}}); err != nil {
		t.Error(err)
	}
}
