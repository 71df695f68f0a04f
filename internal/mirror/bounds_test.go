package mirror_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// ran has the directory tell of a run that ended.
func (h *host) ran(all ...run.Record) {
	h.t.Helper()
	for i := range all {
		all[i].ID, all[i].Job, all[i].Outcome = run.NewID(), "app/j", run.Succeeded
		all[i].Ended = all[i].Started.Add(time.Second)
	}
	if err := h.backend.History.AppendRuns(h.t.Context(), all); err != nil {
		h.t.Fatal(err)
	}
}

// A store that is new to a host gets the last week, however much there is before.
func TestANewStoreGetsTheLastWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		now := time.Now().UTC()
		h.ran(run.Record{Started: now.Add(-8 * 24 * time.Hour)}, run.Record{Started: now.Add(-6 * 24 * time.Hour)}, run.Record{Started: now.Add(-time.Hour)})
		h.pass()
		if got := told(t, h.known().View(h.shared), "app/j").Runs; len(got) != 2 || !got[1].Started.Equal(now.Add(-6*24*time.Hour)) {
			t.Errorf("it has %+v", got)
		}
	})
}

// What was being written during one pass is copied by the next, although it began before that pass.
func TestWhatWasBeingWrittenIsCopiedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		h.pass()
		h.ran(run.Record{Started: time.Now().UTC().Add(-10 * time.Second)})
		time.Sleep(5 * time.Second)
		h.pass()
		if n := len(told(t, h.known().View(h.shared), "app/j").Runs); n != 1 {
			t.Errorf("%d runs are copied", n)
		}
	})
}

// Of runs that began at one instant none is left out where a page ends between them.
func TestAPageEndsWithinAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		const many = 2500
		all := make([]run.Record, many)
		for i := range all {
			all[i].Started = time.Now().UTC().Add(-time.Duration((i+1)/2) * time.Second) // the 1000th and the next are of one instant
		}
		h.ran(all...)
		h.pass()
		if n := len(told(t, h.known().View(h.shared), "app/j").Runs); n != many {
			t.Errorf("%d of %d runs are copied", n, many)
		}
	})
}

// Who has lost the turn to another process of the host copies nothing more.
func TestALostTurnIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.Run(ctx) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Minute)
		key := lease.Key("s").Mirror()
		_, r, err := h.backend.Keeper.Read(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok, err := h.backend.Keeper.Break(t.Context(), r.Ref(), lease.Broken{By: "test", Why: "a test", Now: true}); err != nil || !ok {
			t.Fatal(err)
		}
		other, err := h.backend.Keeper.Acquire(t.Context(), lease.Want{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease.DefaultTTL) // it has heard of that
		calls := h.net.calls.Load()
		time.Sleep(5 * time.Minute)
		if n := h.net.calls.Load() - calls; n > 0 {
			t.Errorf("it asked the shared store %d times", n)
		}
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if h.net.calls.Load() == calls {
			t.Error("it does not go on when it is free")
		}
	})
}

// A run of an old tick says that there is news of the tick: it is looked at again, however old it is.
func TestAnOldTickThatRanIsCopiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		stop := h.serve(newJob(t, "@every 1m", time.Second))
		time.Sleep(10 * time.Minute)
		stop()
		h.pass()
		time.Sleep(time.Hour)
		h.pass()
		rows := told(t, h.backend, "app/j").Ticks
		old := rows[len(rows)-1]
		old.Outcome, old.Reason, old.Ended = run.Failed, "run again", time.Now().UTC()
		if err := h.backend.History.AppendTicks(t.Context(), []tick.Tick{old}); err != nil {
			t.Fatal(err)
		}
		h.ran(run.Record{Tick: old.At, Started: time.Now().UTC()})
		h.pass()
		got := told(t, h.known().View(h.shared), "app/j").Ticks
		if last := got[len(got)-1]; !last.At.Equal(old.At) || last.Outcome != run.Failed {
			t.Errorf("it is told as %+v; want %+v", last, old)
		}
	})
}
