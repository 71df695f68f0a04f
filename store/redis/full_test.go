package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// fill makes a server refuse whatever takes memory, as one does that has reached its maxmemory and evicts nothing.
func fill(t *testing.T, c store.Config) {
	t.Helper()
	raw := rawClient(t, c)
	for _, set := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if err := raw.ConfigSet(t.Context(), set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Set(t.Context(), "more", "x", 0).Err(); err == nil {
		t.Fatal("the server is not full")
	}
}

// A server whose memory is full begins nothing, and ends nothing: what replaces what is there goes on.
// Holds: T16.
func TestAFullServerTakesWhatOnlyReplaces(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, ownServer(t).URL)
	ctx := t.Context()
	held, broken := grantOf(t, s, "held"), grantOf(t, s, "broken")
	replaceable := request("asked")
	replaceable.Holder.Replaceable = true
	asked := acquire(t, s, replaceable).Record
	at := storeNow(t, s).Truncate(time.Minute)
	claim(t, s, held.Ref(), at)
	rec := run.Record{ID: run.NewID(), Job: "j", Tick: at, Owner: held.Owner, Token: held.Token, Started: storeNow(t, s)}
	started, err := s.Ticks.Start(ctx, []tick.StartRequest{{Run: rec, Claim: held.Ref(), Lease: held.Ref()}})
	if err != nil || started[0].Status != tick.Won {
		t.Fatal(started, err)
	}
	old := run.Record{ID: run.NewID(), Job: "old", Outcome: run.Succeeded, Started: at.Add(-time.Hour), Ended: at.Add(-time.Hour)}
	known := fleet.Process{ID: lease.NewNonce()}
	if err := errors.Join(s.History.AppendRuns(ctx, []run.Record{old}), s.History.Output(ctx, old.ID, []byte("out")), s.Fleet.Report(ctx, known)); err != nil {
		t.Fatal(err)
	}
	fill(t, c)

	full := map[string]func() error{
		"an acquire": func() error {
			_, err := s.Leases.Acquire(ctx, []lease.AcquireRequest{request("new")})
			return err
		},
		"an output":       func() error { return s.History.Output(ctx, rec.ID, []byte("out")) },
		"another process": func() error { return s.Fleet.Report(ctx, fleet.Process{ID: lease.NewNonce()}) },
	}
	for what, do := range full {
		if err := do(); !errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("%s of a full server: %v", what, err)
		}
	}

	renewed, err := s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: held.Ref(), TTL: ttl}})
	if err != nil || renewed.Answers[0].Status != lease.OK {
		t.Errorf("renew: %+v, %v", renewed.Answers, err)
	}
	if a, err := s.Leases.Break(ctx, broken.Ref(), lease.Broken{By: "ann", Why: "x"}); err != nil {
		t.Errorf("break: %+v, %v", a, err)
	}
	if a, err := s.Leases.RequestRelease(ctx, asked.Ref(), lease.Holder{Host: "web-2"}); err != nil || a.Answers[0].Status != lease.OK {
		t.Errorf("ask: %+v, %v", a, err)
	}
	closed, err := s.Ticks.Close(ctx, []tick.CloseRequest{{Run: withOutcome(rec, storeNow(t, s)), Claim: held.Ref(), Release: held.Ref()}})
	if err != nil || closed[0].Status != tick.Won {
		t.Errorf("close: %+v, %v", closed, err)
	}
	if got := read(t, s, "held"); got.Status == lease.OK && got.Record.Expires.After(storeNow(t, s)) {
		t.Errorf("the lease is not released with the outcome: %+v", got)
	}
	if r, err := s.Leases.Release(ctx, []lease.Ref{asked.Ref()}); err != nil || r.Answers[0].Status != lease.OK {
		t.Errorf("release: %+v, %v", r.Answers, err)
	}
	if err := s.Fleet.Report(ctx, known); err != nil {
		t.Errorf("report a process that is on record: %v", err)
	}
	n, more, err := s.History.Prune(ctx, at)
	if n != 1 || more || err != nil {
		t.Errorf("prune: %d rows, more %t, %v", n, more, err)
	}
}

func withOutcome(r run.Record, at time.Time) run.Record {
	r.Outcome, r.Ended, r.Attempts = run.Succeeded, at, []run.Attempt{{N: 1, Outcome: run.Succeeded, Started: r.Started, Ended: at}}
	return r
}

// A holder outlives a server that is full for longer than its TTL.
// Holds: T16.
func TestAFullServerLosesNoLease(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, ownServer(t).URL)
	for ttl := time.Second; ; ttl *= 2 { // a machine that is too slow for heartbeats of one may do with those of another
		lost := outlives(t, s, c, ttl)
		if lost == nil {
			return
		}
		if ttl > lease.DefaultTTL/2 {
			t.Fatalf("with a ttl of %s the lease is lost: %v", ttl, lost)
		}
	}
}

// outlives has a holder go on until the server has been full for its TTL, and returns why it lost its lease.
func outlives(t *testing.T, s *store.Store, c store.Config, ttl time.Duration) error {
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Margin: lease.MarginFor(ttl)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	key := lease.Key(ttl.String())
	held, err := k.Acquire(t.Context(), lease.Want{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c)
	full := storeNow(t, s)
	waitFor(t, "the lease to be renewed", func() bool {
		return held.Loss().Err != nil || read(t, s, key).Record.Renewed.After(full.Add(ttl))
	})
	lost := held.Loss().Err
	if err := held.Release(context.Background()); err != nil && lost == nil {
		t.Error(err)
	}
	if err := rawClient(t, c).ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	return lost
}
