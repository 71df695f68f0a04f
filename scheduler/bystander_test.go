package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// longSpool is a spool of which each item takes its time.
type longSpool struct {
	each  time.Duration
	items atomic.Int64
}

func newLongSpool(each time.Duration, items int64) *longSpool {
	s := &longSpool{each: each}
	s.items.Store(items)
	return s
}

func (s *longSpool) Put(scheduler.Item) error { return nil }

func (s *longSpool) Deliver(give func(scheduler.Item) error) error {
	for s.items.Load() > 0 {
		time.Sleep(s.each)
		if err := give(scheduler.Item{}); err != nil {
			return err
		}
		s.items.Add(-1)
	}
	return nil
}

// silentHistory never answers.
type silentHistory struct{ history.Store }

func (silentHistory) Latest(ctx context.Context, _ []string, _ int) ([][]run.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentHistory) Runs(ctx context.Context, _ history.Query) ([]run.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentHistory) Append(ctx context.Context, _ []history.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// Promise 27: the lease of work that has ended is released at once, whoever else is slow; the fire itself ends soon
// after it, and at once when it is told to.
// Holds: promise 27.
func TestAReleaseWaitsForNobody(t *testing.T) {
	for name, slow := range map[string]func(*scheduler.Backend){
		"a spool":   func(p *scheduler.Backend) { p.Spool = newLongSpool(10*time.Millisecond, 5000) },
		"a history": func(p *scheduler.Backend) { p.History = silentHistory{p.History} },
	} {
		for _, told := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", told to end"}[told], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					h, other := w.host(1, 0), w.host(2, 0)
					t.Cleanup(func() { time.Sleep(h.backend.Keeper.Margin().RPCTimeout) }) // a request that nobody waits for ends by itself
					slow(h.backend)
					accept, end := context.WithCancel(t.Context())
					defer end()
					begun := time.Now()
					fired := make(chan scheduler.Result, 1)
					go func() {
						fired <- h.backend.Fire(t.Context(), scheduler.Fire{Key: "k", Target: w.target(time.Second), Accept: accept,
							Policy: job.Policy{Concurrency: job.Forbid}})
					}()
					time.Sleep(500 * time.Millisecond)
					if _, err := other.backend.Keeper.Acquire(t.Context(), lease.Want{Key: "k", Wait: time.Minute}); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took > 1500*time.Millisecond {
						t.Errorf("the work took 1 s, and the key was free after %s", took)
					}
					bound := h.backend.Keeper.Margin().RPCTimeout + 100*time.Millisecond // and the messages' own way
					if told {
						end()
						bound = 100 * time.Millisecond
					}
					left := time.Now()
					if res := <-fired; res.Outcome != run.Succeeded {
						t.Errorf("%+v", res)
					}
					if took := time.Since(left); took > bound {
						t.Errorf("it ended %s after the release", took)
					}
				})
			})
		}
	}
}

// The same of a log that takes nothing: also a server with one runs each tick, and ends.
func TestALogThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		stuck := make(chan struct{})
		p := h.backend
		h.backend = &scheduler.Backend{Name: p.Name, Keeper: p.Keeper, Book: p.Book, Ticks: p.Ticks, History: p.History, Self: p.Self,
			Spool: p.Spool, TimeOfDay: p.TimeOfDay, Log: slog.New(held{slog.DiscardHandler, stuck})}
		h.Server = scheduler.NewServer(h.backend, "app")
		h.start(t, newJob(t, "@every 1s", w.target(100*time.Millisecond), nil))
		time.Sleep(10 * time.Minute)
		begun := time.Now()
		h.stop()
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
		rows := w.history()
		if len(rows) < 590 {
			t.Errorf("%d ticks in ten minutes", len(rows))
		}
		for _, r := range rows {
			if r.Outcome != run.Succeeded {
				t.Fatalf("%s: %s %s", r.At, r.Outcome, r.Reason)
			}
		}
		close(stuck)
	})
}

// held is a log that takes nothing until its end.
type held struct {
	slog.Handler
	until chan struct{}
}

func (l held) Enabled(context.Context, slog.Level) bool { return true }

func (l held) Handle(context.Context, slog.Record) error {
	<-l.until
	return nil
}

func (l held) WithAttrs([]slog.Attr) slog.Handler { return l }

// A long spool is delivered in steps: meanwhile the server fires, takes over what others left, and ends when it is
// told to. It settles nothing before all of it was said.
// Holds: promise 27.
func TestALongSpoolIsDeliveredInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dead := w.host(1, 0)
		j := newJob(t, "@every 10s", w.target(time.Second), nil)
		dead.start(t, newJob(t, "@every 10s", w.target(time.Hour), func(p *job.Policy) { p.OnCrash = job.CrashSkip }))
		time.Sleep(15 * time.Second)
		h := w.host(2, 0)
		long := newLongSpool(100*time.Millisecond, 10_000)
		h.backend.Spool = long
		h.start(t, j)
		time.Sleep(time.Minute)
		dead.cut(true) // its tick is taken for crashed though the spool is not delivered yet
		time.Sleep(5 * time.Minute)
		if n := long.items.Load(); n > 9_000 || n < 5_000 {
			t.Errorf("%d of 10000 items are left", n)
		}
		crashed := func(r tick.Tick) bool { return r.Outcome == run.Crashed }
		if n := count(w.history(), crashed); n != 1 {
			t.Errorf("%d ticks have crashed", n)
		}
		begun := time.Now()
		h.stop()
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("it ended after %s", took)
		}
		if err := h.backend.Deliver(t.Context()); err != nil || long.items.Load() != 0 {
			t.Errorf("%v, %d items are left", err, long.items.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		long.items.Store(2)
		if err := h.backend.Deliver(ctx); !errors.Is(err, scheduler.ErrEnough) || long.items.Load() != 2 {
			t.Errorf("%v, %d items are left", err, long.items.Load())
		}
		dead.stop()
	})
}

// How a run of this host ended may be in the spool: as long as that is being delivered, it is not taken for crashed.
func TestAHostHearsItsOwnSpoolBeforeItConcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dead := w.host(1, 0)
		dead.start(t, newJob(t, "@every 10s", w.target(time.Hour), nil))
		time.Sleep(15 * time.Second)
		again := w.host(1, 0) // another process there
		long := newLongSpool(100*time.Millisecond, 3_000)
		again.backend.Spool = long
		again.start(t, newJob(t, "@every 10s", w.target(time.Second), nil))
		dead.cut(true)
		crashed := func(r tick.Tick) bool { return r.Outcome == run.Crashed }
		time.Sleep(2 * time.Minute)
		if n := count(w.history(), crashed); n != 0 || long.items.Load() == 0 {
			t.Errorf("%d ticks are taken for crashed, with %d items still to be delivered", n, long.items.Load())
		}
		for long.items.Load() > 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if n := count(w.history(), crashed); n != 1 {
			t.Errorf("%d ticks have crashed", n)
		}
		again.stop()
		dead.stop()
	})
}

func count(rows []tick.Tick, is func(tick.Tick) bool) (n int) {
	for _, r := range rows {
		if is(r) {
			n++
		}
	}
	return n
}

// silentEvents takes no event.
type silentEvents struct{ history.Store }

func (silentEvents) Append(ctx context.Context, _ []history.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// Who takes a tick over carries it out at once: that it did so is recorded beside.
func TestATakeoverWaitsForNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		again := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
		dead, h := w.host(1, 0), w.host(2, 0)
		dead.start(t, newJob(t, "*/10 * * * *", w.target(time.Hour), again))
		time.Sleep(11 * time.Minute)
		h.withBackend(func(p *scheduler.Backend) { p.History = silentEvents{p.History} })
		h.start(t, newJob(t, "*/10 * * * *", w.target(time.Second), again))
		dead.cut(true)
		time.Sleep(2 * time.Minute)
		row := w.history()[0]
		if took := row.Started.Sub(row.Claimed); row.Reruns != 1 || took > time.Second {
			t.Errorf("it began %s after it was taken over: %+v", took, row)
		}
		dead.cut(false)
		dead.stop()
		h.stop()
	})
}
