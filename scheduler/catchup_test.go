package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// ordered is a target that notes the ticks in the order in which they start.
func (w *world) ordered(d time.Duration) (run.Target, func() []time.Time) {
	var (
		mu  sync.Mutex
		all []time.Time
	)
	target := w.target(d)
	return run.Func(func(ctx context.Context, c run.Call) error {
			mu.Lock()
			all = append(all, c.Run.Tick)
			mu.Unlock()
			return target.Attempt(ctx, c).Err
		}), func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
}

// Ticks that fall due during a catch-up join its end, on whichever server; nothing is skipped, replaced or run out of
// order.
// Holds: promise 15, T8.
func TestOnTimeTicksJoinACatchUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		concurrency job.Concurrency
		catchUp     job.CatchUp
		missed      int
	}{{job.Forbid, job.CatchUpAll, 20}, {job.Wait, job.CatchUpAll, 20}, {job.Replace, job.CatchUpAll, 20}, {job.Forbid, job.CatchUpLatest, 1}} {
		t.Run(string(c.concurrency)+" "+string(c.catchUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				took := 40 * time.Second
				if c.catchUp == job.CatchUpLatest {
					took = 10 * time.Minute // several fall due meanwhile
				}
				target, order := w.ordered(took)
				policy := func(p *job.Policy) {
					p.Concurrency, p.CatchUp, p.CatchUpWindow = c.concurrency, c.catchUp, 10*time.Hour
				}
				h := w.host(1, 0)
				h.start(t, newJob(t, "* * * * *", w.target(0), policy))
				time.Sleep(time.Minute)
				h.stop()
				time.Sleep(20*time.Minute + 40*time.Second) // too late for the tick of this minute
				up := time.Now()
				both := []*host{w.host(2, 0), w.host(3, 0)}
				for _, h := range both {
					h.start(t, newJob(t, "* * * * *", target, policy))
				}
				time.Sleep(90 * time.Minute)
				for _, h := range both {
					h.stop()
				}
				ran := order()
				if !slices.IsSortedFunc(ran, time.Time.Compare) {
					t.Errorf("they did not start oldest first: %v", ran)
				}
				caught := slices.IndexFunc(ran, up.Before)
				if d := caught - c.missed; d < -1 || d > 1 {
					t.Errorf("%d were caught up on, want %d", caught, c.missed)
				}
				if c.catchUp == job.CatchUpAll {
					w.consecutive(ran)
				}
				if n := w.outcomes(); n[run.Skipped]+n[run.Replaced]+n[run.Unavailable] > 0 {
					t.Errorf("outcomes are %v", n)
				}
				// With runs of ten minutes it never ends, and one follows the other.
				if c.catchUp == job.CatchUpLatest && len(ran) < 9 {
					t.Errorf("%d were run in an hour and a half", len(ran))
				}
			})
		})
	}
}

// consecutive checks that no minute is missing.
func (w *world) consecutive(ran []time.Time) {
	w.t.Helper()
	for i, at := range ran[1:] {
		if at.Sub(ran[i]) != time.Minute {
			w.t.Errorf("after %s came %s", ran[i], at)
		}
	}
}

// Rule T8: ticks that a server could not claim since it was cut off from the store are caught up on, and
// so is one whose server died between its claim and its start; under `latest` a later run makes up
// for them.
// Holds: promise 15, T8.
func TestWhatWasUnavailableIsCaughtUp(t *testing.T) {
	t.Parallel()
	for policy, want := range map[job.CatchUp]map[run.Outcome]int{
		job.CatchUpSkip:   {run.Unavailable: 3},
		job.CatchUpLatest: {run.Unavailable: 2},
		job.CatchUpAll:    {},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				target, order := w.ordered(time.Second)
				h := w.host(1, 0)
				h.start(t, newJob(t, "0 * * * *", target, func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = policy, 6*time.Hour }))
				time.Sleep(90 * time.Minute) // 01:00 runs
				h.cut(true)
				time.Sleep(3 * time.Hour) // 02:00, 03:00 and 04:00 do not
				h.cut(false)
				time.Sleep(15 * time.Minute)
				inTime := len(order())
				time.Sleep(time.Hour) // 05:00 runs
				h.stop()
				got := w.outcomes()
				for o, n := range map[run.Outcome]int{run.Unavailable: want[run.Unavailable], run.Missed: 0, run.Succeeded: 5 - want[run.Unavailable]} {
					if got[o] != n {
						t.Errorf("%d ended %s, want %d: %v", got[o], o, n, got)
					}
				}
				if n := len(order()); n != inTime+1 || !slices.IsSortedFunc(order(), time.Time.Compare) {
					t.Errorf("they were run as %v", order())
				}
				for at, n := range w.ran() {
					if n != 1 {
						t.Errorf("tick %s was run %d times", at, n)
					}
				}
			})
		})
	}
}

// startsNot is a store that takes no start of one tick.
type startsNot struct {
	tick.Store
	at *atomic.Pointer[time.Time]
}

func (s startsNot) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	if at := s.at.Load(); at != nil && r[0].Run.Tick.Equal(*at) {
		return nil, lease.ErrUnavailable
	}
	return s.Store.Start(ctx, r)
}

// A tick whose catch-up came to nothing is caught up on once more, though a sweep that looked while it was claimed has
// found nothing, and the mark has passed it: a process that does not catch up has settled what was over.
// Holds: T8.
func TestACatchUpThatCameToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for offset := range 5 { // a sweep comes every three seconds, and takes two
			w := newWorld(t)
			h, operator := w.host(1, 0), w.host(9, 0)
			var refused atomic.Pointer[time.Time]
			h.backend.Book = tick.NewBook(startsNot{h.ticks, &refused}, h.backend.Keeper, h.backend.Self)
			h.backend.History = remoteHistory{h.backend.History, 2 * time.Second}
			first := time.Now().Truncate(time.Hour).Add(2 * time.Hour).UTC()
			second := first.Add(time.Hour)
			hourly := newJob(t, "0 * * * *", run.Func(func(_ context.Context, c run.Call) error {
				if c.Run.Tick.Equal(first) {
					time.Sleep(45*time.Minute + time.Duration(offset)*700*time.Millisecond)
				}
				return nil
			}), func(p *job.Policy) {
				p.CatchUp, p.CatchUpWindow, p.Concurrency = job.CatchUpAll, 6*time.Hour, job.Allow
			})
			settled := func(by time.Time) {
				t.Helper()
				operator.backend.TidyAfter(t.Context(), hourly, "app/j")
				jobs, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
				if err != nil || jobs[0].Mark.Before(by) {
					t.Errorf("the mark is %s, want %s: %v", jobs[0].Mark, by, err)
				}
			}
			h.start(t, hourly)
			time.Sleep(time.Until(first.Add(-30 * time.Minute)))
			h.cut(true)
			time.Sleep(2 * time.Hour)
			refused.Store(&second)
			h.cut(false)
			for w.row(first).Outcome != run.Unavailable || w.row(second).Outcome != run.Unavailable {
				time.Sleep(10 * time.Millisecond)
			}
			settled(second)
			time.Sleep(time.Until(second.Add(70 * time.Minute))) // the third has run in time, the first still runs
			settled(second.Add(time.Hour))
			time.Sleep(10 * time.Minute)
			if w.row(first).Outcome != run.Succeeded || w.row(second).Outcome == run.Succeeded {
				t.Errorf("while the second cannot start: %+v, %+v", w.row(first), w.row(second))
			}
			refused.Store(nil)
			time.Sleep(5 * time.Minute)
			if r := w.row(second); r.Outcome != run.Succeeded {
				t.Errorf("once it could start: %+v", r)
			}
			h.stop()
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Second)))
		}
	})
}

// A second pause leaves to the catch-up what was missed before the first one; the first one's own ticks
// stay paused.
// Holds: T8.
func TestASecondPauseLeavesWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 10*time.Hour }
		h := w.host(1, 0)
		h.start(t, newJob(t, "*/10 * * * *", w.target(0), policy))
		time.Sleep(time.Minute)
		h.stop()
		time.Sleep(30 * time.Minute) // 00:10, 00:20 and 00:30 are missed
		operator := w.host(9, 0)
		operator.pause(t, tick.PauseRequest{By: "ann", Why: "the first"})
		time.Sleep(20 * time.Minute) // 00:40 and 00:50
		operator.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(time.Minute)
		operator.pause(t, tick.PauseRequest{By: "ann", Why: "the second"})
		h = w.host(2, 0)
		h.start(t, newJob(t, "*/10 * * * *", w.target(0), policy))
		time.Sleep(20 * time.Minute) // 01:00 and 01:10
		operator.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(7 * time.Minute)
		h.stop()
		if got := w.outcomes(); len(got) != 2 || got[run.Succeeded] != 3 || got[run.Paused] != 4 {
			t.Errorf("outcomes are %v", got)
		}
	})
}

// A process that stands by runs nothing again beyond the catch-up window.
// Holds: T3.
func TestStandingByEndsWithTheWindow(t *testing.T) {
	for window, want := range map[time.Duration]int{time.Hour: 1, 10 * time.Minute: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			policy := func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, window }
			first, second := w.host(1, 0), w.host(2, 0)
			at := time.Now().Truncate(time.Minute).UTC()
			time.Sleep(time.Second)
			hangs := newJob(t, "* * * * *", run.Func(func(ctx context.Context, _ run.Call) error { <-ctx.Done(); return ctx.Err() }), policy)
			var both sync.WaitGroup
			both.Go(func() { _, _, _ = first.backend.Trigger(t.Context(), t.Context(), hangs, at) })
			time.Sleep(time.Second)
			both.Go(func() {
				_, _, err := second.backend.Trigger(t.Context(), t.Context(), newJob(t, "* * * * *", w.target(0), policy), at)
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(20 * time.Minute)
			first.cut(true)
			time.Sleep(5 * time.Minute)
			first.cut(false)
			both.Wait()
			if n := w.times(at); n != want {
				t.Errorf("with a window of %s the tick was run again %d times, want %d", window, n, want)
			}
		})
	}
}

// A sweep comes several times per TTL, on every server: one that finds nothing to catch up on looks through
// no more than what came since.
func TestSweepsDoNotReadTheWholeWindow(t *testing.T) {
	t.Parallel()
	for _, catchUp := range []job.CatchUp{job.CatchUpLatest, job.CatchUpAll} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := w.host(1, 0)
			counted := &countedHistory{Store: h.backend.History}
			h.backend.History = counted
			h.start(t, newJob(t, "* * * * *", w.target(0), func(p *job.Policy) { p.CatchUp = catchUp }))
			time.Sleep(3 * time.Hour)
			counted.rows.Store(0)
			time.Sleep(20 * time.Minute)
			if n, sweeps := counted.rows.Load(), int64(20*time.Minute/(3*time.Second)); n > 5*sweeps {
				t.Errorf("%s: %d rows were read in %d sweeps", catchUp, n, sweeps)
			}
			h.stop()
		})
	}
}

// A sweep reads what is registered once, however many jobs there are.
func TestASweepReadsTheRegistrationsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		var jobs []*scheduler.Job
		for n := range 50 {
			j := newJob(t, "0 0 1 1 *", w.target(0), nil)
			j.Spec.Name = fmt.Sprint("j", n)
			jobs = append(jobs, j)
		}
		counted := &countedJobs{Store: h.backend.Ticks}
		h.backend.Ticks = counted
		h.start(t, jobs...)
		time.Sleep(10 * time.Minute)
		if n, sweeps := counted.reads.Load(), int64(10*time.Minute/(3*time.Second)); n < sweeps/2 || n > 2*sweeps {
			t.Errorf("they were read %d times in %d sweeps", n, sweeps)
		}
		h.stop()
	})
}

// countedJobs counts how often the registrations are read.
type countedJobs struct {
	tick.Store
	reads atomic.Int64
}

func (c *countedJobs) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	c.reads.Add(1)
	return c.Store.Jobs(ctx, q)
}

// countedHistory counts the rows that are read.
type countedHistory struct {
	history.Store
	rows atomic.Int64
}

func (c *countedHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	rows, err := c.Store.Ticks(ctx, q)
	c.rows.Add(int64(len(rows)))
	return rows, err
}
