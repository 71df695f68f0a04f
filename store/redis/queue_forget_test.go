package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
)

// A limit that nobody has used for a month is forgotten, and made anew where it is wanted again; one of a running or a
// waiting task stays, and one on which an operator's word stands.
// Holds: Q5.
func TestALimitThatIsNotUsedIsForgotten(t *testing.T) {
	c := config(t, ownServer(t).URL)
	c.Init = true
	s := open(t, c)
	raw, prefix := rawClient(t, c), "dibs:{"+c.Namespace+"}:"
	ctx := t.Context()
	a, err := s.Leases.Acquire(ctx, []lease.AcquireRequest{{Key: "w", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: lease.DefaultTTL}})
	if err != nil {
		t.Fatal(err)
	}
	w := a.Answers[0].Record.Ref()
	enqueue := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			spec := queue.Spec{Queue: "q", Kind: "k", Limit: &queue.Limit{Key: key}}
			if err := spec.Check(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Queue.Enqueue(ctx, []queue.Spec{spec}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fetch := func() map[string]driver.Ref {
		t.Helper()
		f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]driver.Ref{}
		for _, x := range f.Tasks {
			got[x.Limit.Key] = x.Ref
		}
		return got
	}
	enqueue("gone", "said", "runs", "waits")
	for key, ref := range fetch() {
		if key == "runs" {
			continue
		}
		if _, err := s.Queue.Finish(ctx, w, []driver.Completion{{Ref: ref, Verdict: driver.Success}}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("waits", "fresh")
	if ok, err := s.Tasks.SetLimit(ctx, (&queue.Limit{Key: "said"}).Hash("k"), 2, "me"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	limits := func() map[string]string { // by readable key
		t.Helper()
		all := map[string]string{}
		for _, name := range raw.ZRange(ctx, prefix+"limits", 0, -1).Val() {
			all[raw.HGet(ctx, prefix+"limit:"+name, "key").Val()] = name
		}
		return all
	}
	old := time.Now().Add(-31 * 24 * time.Hour).UnixMicro()
	for key, name := range limits() {
		if key != "fresh" {
			raw.HSet(ctx, prefix+"limit:"+name, "used", old)
		}
	}
	if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Repaired != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	left := limits()
	if _, there := left["gone"]; there || len(left) != 4 {
		t.Errorf("limits: %v", left)
	}
	enqueue("gone", "gone")
	if got := fetch(); len(got) != 3 || got["gone"].ID == 0 {
		t.Errorf("fetched %v", got)
	}
}
