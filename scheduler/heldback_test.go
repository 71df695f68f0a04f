package scheduler_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
)

// logged is a host whose log is kept, and whose backend is as a program makes it.
func (w *world) logged(seed uint64) (*host, *safeText) {
	h, log := w.host(seed, 0), new(safeText)
	h.withBackend(func(p *scheduler.Backend) {
		p.Log, p.Spool, p.Book.OnHeldBack = slog.New(slog.NewTextHandler(log, nil)), nil, nil
	})
	return h, log
}

// oneLine checks that a log says once, and plainly, that the store holds back, and has nothing else above INFO.
func oneLine(t *testing.T, log *safeText) {
	t.Helper()
	said := 0
	for line := range strings.Lines(log.String()) {
		switch {
		case strings.Contains(line, "level=INFO"), strings.Contains(line, "level=DEBUG"):
		case strings.Contains(line, "event=held-back") && strings.Contains(line, "new or restarted store: waiting "):
			said++
		default:
			t.Errorf("the log says %s", line)
		}
	}
	if said != 1 {
		t.Errorf("the log says %d times that the store holds back, want once:\n%s", said, log)
	}
}

// Rule L9: what falls due while a new store holds back starts when that ends, however short its time to start is.
func TestNoTickIsLostInAHoldBack(t *testing.T) {
	for _, c := range []job.Concurrency{job.Forbid, job.Allow} {
		t.Run(string(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.b = memory.New(memory.Options{HoldBack: true})
				h, log := w.logged(1)
				target := w.target(50 * time.Millisecond)
				if c == job.Allow {
					target = run.Func(func(context.Context, run.Call) error { return nil })
				}
				first := time.Now().UTC().Truncate(time.Second).Add(time.Second)
				h.start(t, newJob(t, "@every 1s", target, func(p *job.Policy) { p.Concurrency = c }))
				time.Sleep(2 * time.Minute)
				h.stop()
				last := time.Now().UTC().Add(-time.Second).Truncate(time.Second)
				for at := first; at.Before(last); at = at.Add(time.Second) {
					if row := w.row(at); row.Outcome != run.Succeeded {
						t.Errorf("%s: %s %s", at, row.Outcome, row.Reason)
					}
				}
				if began := w.row(first).Claimed; began.Before(w.b.Store().Properties.HoldUntil) {
					t.Errorf("the first tick was claimed at %s", began)
				}
				oneLine(t, log)
			})
		})
	}
}

// restart has the store hold back, as one does that went back to an older state, and forget the leases of all servers.
func (w *world) restart(t *testing.T, h *host) (until time.Time) {
	t.Helper()
	leases := w.b.Store().Leases
	r, err := leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce()},
		TTL: lease.DefaultTTL, Seen: lease.Epoch(time.Now().Add(time.Hour).UnixMicro())}})
	if err != nil || r.Answers[0].Status != lease.HeldBack {
		t.Fatalf("%+v, %v", r, err)
	}
	all, err := leases.List(t.Context(), "", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all.Answers {
		if a.Record.Holder.RunID == "" && a.Record.Holder.Command == scheduler.ServerCommand("app") {
			if _, _, _, err := h.backend.Keeper.Break(t.Context(), a.Record.Ref(), lease.Broken{By: "test", Why: "a restart", Now: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r.Answers[0].Until
}

// The same where the store is restarted under servers at work: whatever the policy, each tick ends as it says, none is
// missed, and no two runs overlap.
func TestNoTickIsLostWhenAStoreIsRestarted(t *testing.T) {
	for name, policy := range map[string]func(*job.Policy){
		"forbid":  nil,
		"replace": func(p *job.Policy) { p.Concurrency = job.Replace },
		"wait":    func(p *job.Policy) { p.Concurrency = job.Wait },
		"latest":  func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpLatest, time.Hour },
		"all":     func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, time.Hour },
		"soon":    func(p *job.Policy) { p.StartingDeadline = 100 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				one, _ := w.logged(1)
				two, _ := w.logged(2)
				first := time.Now().UTC().Truncate(2 * time.Second).Add(2 * time.Second)
				for _, h := range []*host{one, two} {
					h.start(t, newJob(t, "@every 2s", w.target(1200*time.Millisecond), policy))
				}
				time.Sleep(21 * time.Second)
				begun := time.Now().UTC()
				until := w.restart(t, one)
				time.Sleep(2 * time.Minute)
				one.stop()
				two.stop()
				ran, within := 0, 0
				for at := first; at.Before(begun.Add(time.Minute)); at = at.Add(2 * time.Second) {
					row := w.row(at)
					switch row.Outcome {
					case run.Succeeded:
						ran++
					case run.Skipped, run.Replaced:
					case run.Lost: // its lease was broken
						if at.After(begun) {
							t.Errorf("%s: %s %s", at, row.Outcome, row.Reason)
						}
					default:
						t.Errorf("%s: %q %s", at, row.Outcome, row.Reason)
					}
					if at.After(begun) && at.Before(until) {
						within++
					}
				}
				if within < 7 || ran < within {
					t.Errorf("%d ticks ran, and %d fell due while the store held back", ran, within)
				}
			})
		})
	}
}

// A process that was started for one tick waits as well, and so does one that nobody may start too late.
func TestATriggerWaitsForAHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.b = memory.New(memory.Options{HoldBack: true})
		h, log := w.logged(1)
		j := newJob(t, "@every 1s", w.target(time.Millisecond), func(p *job.Policy) { p.StartingDeadline = time.Second })
		at := time.Now().UTC().Truncate(time.Second)
		res, a, err := h.backend.Trigger(t.Context(), t.Context(), j, at)
		if err != nil || res.Outcome != run.Succeeded || w.times(at) != 1 {
			t.Errorf("%+v, %+v, %v", res, a, err)
		}
		if now, until := time.Now(), w.b.Store().Properties.HoldUntil; now.Before(until) {
			t.Errorf("it ran at %s, and the store holds back until %s", now, until)
		}
		oneLine(t, log)
	})
}
