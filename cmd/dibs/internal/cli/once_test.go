package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// TestOncePerIsReadWithItsKey: H stands for the key, and --dst reaches the ticks.
func TestOncePerIsReadWithItsKey(t *testing.T) {
	o, err := parseOnce("H 2 * * *", "America/New_York", "skip", "invoices")
	if err != nil {
		t.Fatal(err)
	}
	next, _ := o.schedule.Next(time.Date(2024, 3, 10, 5, 0, 0, 0, time.UTC)) // 02:00 to 03:00 is left out
	if want := time.Date(2024, 3, 11, 6, next.Minute(), 0, 0, time.UTC); !next.Equal(want) {
		t.Errorf("due at %s, want %s", next, want)
	}
	other, err := parseOnce("H 2 * * *", "America/New_York", "skip", "rates")
	if err != nil || other.schedule.Description() == o.schedule.Description() {
		t.Errorf("another key has the same times, or %v", err)
	}
	if _, err := parseOnce("@daily", "UTC", "never", "invoices"); err == nil || !strings.Contains(err.Error(), "--dst \"never\": want vixie, skip or repeat") {
		t.Errorf("an unknown --dst: %v", err)
	}
}

// fakeHost is one host of a fleet in virtual time, whose dibs can be stopped.
type fakeHost struct {
	*sim.Process
	runner
	ran int
}

func newFakeHost(t *testing.T, b *memory.Backend, seed uint64) *fakeHost {
	h := &fakeHost{Process: sim.NewProcess(seed, 0, 0, 0)}
	st := h.Reach(b.Store(), new(sim.Server))
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: h.Clock(clock.Virtual{Start: time.Now().Add(-time.Hour)})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	place := &scheduler.Backend{Keeper: k, Book: tick.NewBook(st.Ticks, k, lease.Holder{}), Ticks: st.Ticks, History: st.History}
	h.runner = runner{place: &opened{Backend: &backend.Backend{Backend: place, Store: st}, store: st}, signals: &relay{waiting: t.Context()}, now: k.Now}
	h.key = "k"
	return h
}

// oncePer runs once per hour, and waits for as long as it takes.
func (h *fakeHost) oncePer(t *testing.T, policy job.Policy) report {
	o := once{every: time.Hour}
	return o.fire(t.Context(), t.Context(), &h.runner, scheduler.Fire{Key: "k", Policy: policy, Wait: time.Hour, OnStart: func(run.Record) {},
		Target: run.Func(func(context.Context, run.Call) error { h.ran++; return nil })})
}

// A process that waited for the key, and was stopped for so long that another one began meanwhile, begins nothing.
// Holds: T10.
func TestOncePerDurationLooksAgainAfterEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		holder, first, second := newFakeHost(t, b, 1), newFakeHost(t, b, 2), newFakeHost(t, b, 3)
		l, err := holder.place.Keeper.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		policy := job.DefaultPolicy(true)
		waited := make(chan report)
		go func() { waited <- first.oncePer(t, policy) }()
		time.Sleep(time.Minute) // it waits, behind the gate
		first.Stop(true)
		time.Sleep(time.Minute) // the gate has lapsed
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rep := second.oncePer(t, policy); rep.Outcome != run.Succeeded {
			t.Errorf("the second: %+v", rep)
		}
		first.Stop(false)
		if rep := <-waited; rep.Outcome != notDue {
			t.Errorf("the first: %+v", rep)
		}
		if first.ran+second.ran != 1 {
			t.Errorf("it ran %d times on the first host and %d times on the second, within an hour", first.ran, second.ran)
		}
	})
}

// Under Allow no key keeps runs apart: the gate alone does, which the store asks for at the start.
func TestOncePerDurationStartsNothingWithoutItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		first, second := newFakeHost(t, b, 1), newFakeHost(t, b, 2)
		policy := job.DefaultPolicy(true)
		policy.Concurrency = job.Allow
		f := scheduler.Fire{Key: "k", Policy: policy, OnStart: func(run.Record) {},
			Target: run.Func(func(context.Context, run.Call) error { first.ran++; return nil })}
		gate, err := first.place.Keeper.Acquire(t.Context(), lease.Want{Key: lease.Key("k").Gate()})
		if err != nil {
			t.Fatal(err)
		}
		f.Gate = gate.Ref()
		f.Due = func(ctx context.Context) error { // it is due, and then the gate is gone
			_, _, ok, err := second.place.Keeper.Break(ctx, lease.Ref{Key: gate.Key()}, lease.Broken{By: "ann", Why: "test", Now: true})
			if !ok || err != nil {
				t.Error(ok, err)
			}
			if rep := second.oncePer(t, policy); rep.Outcome != run.Succeeded {
				t.Errorf("the second: %+v", rep)
			}
			return nil
		}
		if res := first.place.Fire(t.Context(), f); res.Run.ID != "" || first.ran > 0 {
			t.Errorf("the first: %+v", res)
		}
		gate.Drop()
	})
}
