package redis

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
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
}
