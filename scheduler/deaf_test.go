package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
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

// stuckHooks take one thing, and do not return until they are told to go on.
type stuckHooks struct {
	goOn chan struct{}
	mu   sync.Mutex
	told int
}

func (h *stuckHooks) Wants(string, job.HookEvent) bool { <-h.goOn; return true }

func (h *stuckHooks) Tell(scheduler.Happening) {
	<-h.goOn
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
}

// stuckOutput takes nothing until it is told to go on.
type stuckOutput struct{ goOn chan struct{} }

func (o stuckOutput) Write(b []byte) (int, error) { <-o.goOn; return len(b), nil }
func (stuckOutput) Close() error                  { return nil }

// eventLog counts the lines of a log by their event.
type eventLog struct {
	slog.Handler
	mu    *sync.Mutex
	lines map[string]int
}

func newEventLog() eventLog {
	return eventLog{slog.DiscardHandler, new(sync.Mutex), map[string]int{}}
}

func (l eventLog) Enabled(context.Context, slog.Level) bool { return true }
func (l eventLog) WithAttrs([]slog.Attr) slog.Handler       { return l }

func (l eventLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			l.lines[a.Value.String()]++
		}
		return true
	})
	return nil
}

func (l eventLog) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[event]
}

// withBackend has the host serve at a backend like its own, but for what change changes.
func (h *host) withBackend(change func(*scheduler.Backend)) {
	p := h.backend
	h.backend = &scheduler.Backend{Name: p.Name, Keeper: p.Keeper, Book: p.Book, Ticks: p.Ticks, History: p.History,
		Self: p.Self, Spool: p.Spool, TimeOfDay: p.TimeOfDay, Log: p.Log}
	change(h.backend)
	h.Server = scheduler.NewServer(h.backend, "app")
}

// Promise 27: hooks and outputs that never return hold up no tick and no lease of any job, and not the end of the
// server. What is not told for it is in the log, one by one.
// Holds: promise 27.
func TestCallbacksThatNeverReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, log := w.host(1, 0), newEventLog()
		hooks := &stuckHooks{goOn: make(chan struct{})}
		h.withBackend(func(p *scheduler.Backend) { p.Hooks, p.Log = hooks, slog.New(log) })
		loud := newJob(t, "@every 10s", run.Func(func(_ context.Context, c run.Call) error {
			for i := range 100 {
				fmt.Fprintln(c.Output, "line", i)
			}
			return nil
		}), nil)
		loud.Output = func(run.Record) io.WriteCloser { return stuckOutput{hooks.goOn} }
		other := newJob(t, "@every 1s", run.Func(func(context.Context, run.Call) error { return nil }), nil)
		other.Spec.Name = "other"
		h.start(t, loud, other)
		time.Sleep(20 * time.Minute)
		begun := time.Now()
		h.stop()
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("the server ended after %s", took)
		}
		if held, err := w.b.Store().Leases.List(t.Context(), "", false); err != nil || len(held.Answers) > turns(held) {
			t.Errorf("%v, held are %+v", err, held.Answers)
		}
		started := 0
		for name, least := range map[string]int{"app/j": 119, "app/other": 1190} {
			rows, err := w.b.Store().History.Ticks(t.Context(), history.Query{Job: name, Limit: 10_000})
			n := count(rows, func(r tick.Tick) bool { return r.Outcome == run.Succeeded })
			if err != nil || n < least || n < len(rows) {
				t.Errorf("%d of %d ticks of %s succeeded (%v)", n, len(rows), name, err)
			}
			started += len(rows)
		}
		if log.count("output-dropped") < 119 {
			t.Errorf("%d runs say that their output was dropped", log.count("output-dropped"))
		}
		close(hooks.goOn)
		if !h.backend.FlushHooks(time.Minute) {
			t.Error("the hooks are not told although they take it")
		}
		hooks.mu.Lock()
		defer hooks.mu.Unlock()
		missed := log.count("hooks-behind")
		if missed == 0 || hooks.told+missed != 2*started { // a start and an end of each
			t.Errorf("%d were told, of %d the log says that they were not, in %d runs", hooks.told, missed, started)
		}
	})
}

// A lease is released on time although what its run prints is not taken.
// Holds: promise 27.
func TestAReleaseWaitsForNoOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, other := w.host(1, 0), w.host(2, 0)
		goOn := make(chan struct{})
		begun := time.Now()
		go h.backend.Fire(t.Context(), scheduler.Fire{Key: "k", Output: stuckOutput{goOn},
			Policy: job.Policy{Concurrency: job.Forbid},
			Target: run.Func(func(_ context.Context, c run.Call) error {
				time.Sleep(time.Second)
				for range 100 {
					fmt.Fprintln(c.Output, "line")
				}
				return nil
			})})
		time.Sleep(500 * time.Millisecond)
		if _, err := other.backend.Keeper.Acquire(t.Context(), lease.Want{Key: "k", Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the work took 1 s, and the key was free after %s", took)
		}
		close(goOn)
	})
}

// stuckSpool takes nothing until it is told to go on.
type stuckSpool struct {
	*spool
	goOn chan struct{}
}

func (s stuckSpool) Put(i scheduler.Item) error { <-s.goOn; return s.spool.Put(i) }

// An outcome that neither the store nor this host's disk takes holds its lease for three TTLs and not for ever. What
// the disk takes later is there.
// Holds: promise 27.
func TestAReleaseWaitsForNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, other := w.host(1, 0), w.host(2, 0)
		s := stuckSpool{h.spool, make(chan struct{})}
		h.withBackend(func(p *scheduler.Backend) { p.Spool = s })
		ttl := h.backend.Keeper.Margin().TTL
		begun := time.Now()
		go h.backend.Fire(t.Context(), scheduler.Fire{Key: "k", Policy: job.Policy{Concurrency: job.Forbid},
			Target: run.Func(func(context.Context, run.Call) error {
				h.ticks.mu.Lock()
				defer h.ticks.mu.Unlock()
				h.ticks.cut = true // leases are renewed still
				return nil
			})})
		time.Sleep(500 * time.Millisecond)
		if _, err := other.backend.Keeper.Acquire(t.Context(), lease.Want{Key: "k", Wait: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 2*ttl || took > 3*ttl+2*time.Second {
			t.Errorf("the key was free after %s", took)
		}
		close(s.goOn)
		synctest.Wait()
		if kept := h.spool.kept(); len(kept) != 1 || kept[0].Close == nil || kept[0].Close.Run.Outcome != run.Succeeded {
			t.Errorf("the spool has %+v", kept)
		}
	})
}

// A job whose output can be slowed down loses none of it.
// Holds: promise 27.
func TestASlowOutputLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		var slow slowOutput
		h.backend.Fire(t.Context(), scheduler.Fire{Key: "k", Output: &slow, Policy: job.Policy{Concurrency: job.Forbid},
			Target: run.Func(func(_ context.Context, c run.Call) error {
				for range 100 {
					fmt.Fprintln(c.Output, "line")
				}
				return nil
			})})
		if slow.lines != 100 {
			t.Errorf("%d lines of 100", slow.lines)
		}
	})
}

// slowOutput takes a line in half a second.
type slowOutput struct{ lines int }

func (s *slowOutput) Write(b []byte) (int, error) {
	time.Sleep(500 * time.Millisecond)
	s.lines++
	return len(b), nil
}
