package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Everything that time leaves behind goes with Prune, the last index included.
func TestPruneLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	ctx := t.Context()
	held := grantOf(t, s, "k")
	start := storeNow(t, s).Truncate(time.Second)
	const n = maxBatch + 20 // more than a page
	var claims []tick.ClaimRequest
	var runs []run.Record
	var events []history.Event
	for i := range n {
		at := start.Add(-time.Duration(i) * time.Second)
		id := run.NewID()
		claims = append(claims, tick.ClaimRequest{Job: "j", At: at, Lease: held.Ref(), Outcome: run.Skipped})
		runs = append(runs, run.Record{ID: id, Job: "j", Outcome: run.Succeeded, Started: at, Ended: at})
		events = append(events, history.Event{Kind: "x", Job: "j", RunID: id, At: at})
	}
	answers, err := s.Ticks.Claim(ctx, claims)
	if err != nil || len(answers) != n {
		t.Fatal(len(answers), err)
	}
	claim(t, s, held.Ref(), start.Add(-time.Hour)) // unfinished: it stays
	if err := s.History.AppendRuns(ctx, runs); err != nil {
		t.Fatal(err)
	}
	if err := s.History.Output(ctx, runs[0].ID, []byte("out")); err != nil {
		t.Fatal(err)
	}
	if err := s.History.Append(ctx, events); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for more := true; more; {
		some, again, err := s.History.Prune(ctx, start.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		gone, more = gone+some, again
	}
	if gone != 3*n {
		t.Errorf("pruned %d rows, want %d", gone, 3*n)
	}
	left, err := rawClient(t, c).Keys(ctx, "dibs:{"+c.Namespace+"}:*").Result()
	if err != nil || len(left) != 9 {
		t.Errorf("left: %q, %v; want meta, sequence, the lease and its index, a tick and its four", left, err)
	}
}

func TestPruneForgetsLeasesLongFree(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	ctx, raw := t.Context(), rawClient(t, c)
	old := storeNow(t, s).Add(-keepFree - time.Hour).UnixMicro()
	age := func(key lease.Key) {
		if err := raw.HSet(ctx, "dibs:{"+c.Namespace+"}:lease:"+string(key), "renewed", old).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var refs []lease.Ref
	for _, key := range []lease.Key{"old", "young"} {
		refs = append(refs, grantOf(t, s, key).Ref())
	}
	if _, err := s.Leases.Release(ctx, refs); err != nil {
		t.Fatal(err)
	}
	grantOf(t, s, "held")
	age("old")
	age("held")
	for range 100 { // each looks at a page that begins anywhere
		if _, _, err := s.History.Prune(ctx, storeNow(t, s)); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[lease.Key]lease.Status{"old": lease.Gone, "young": lease.OK, "held": lease.OK} {
		if got := read(t, s, key).Status; got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if r := grantOf(t, s, "old"); r.Token <= refs[0].Token {
		t.Errorf("token %d after %d", r.Token, refs[0].Token)
	}
}
