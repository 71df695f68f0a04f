package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// reasons are those of the recorded events of a kind, the oldest first.
func (w *world) reasons(kind string) (why []string) {
	w.t.Helper()
	for _, e := range w.events(kind) {
		why = append([]string{e.Reason}, why...)
	}
	return why
}

// oncePerMinute checks that each minute of [from, to) has one outcome and at most one run, and returns
// the outcomes by count.
func (w *world) oncePerMinute(from, to time.Time) map[run.Outcome]int {
	w.t.Helper()
	n := map[run.Outcome]int{}
	rows := w.history()
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		var of []tick.Tick
		for _, r := range rows {
			if r.At.Equal(at) || !r.Through.IsZero() && r.At.Before(at) && !r.Through.Before(at) {
				of = append(of, r)
			}
		}
		if len(of) != 1 || of[0].Outcome == "" {
			w.t.Errorf("tick %s has the outcomes %+v", at, of)
			continue
		}
		n[of[0].Outcome]++
		if ran := w.times(at.UTC()); ran > 1 || ran == 0 && of[0].Outcome.Ran() {
			w.t.Errorf("tick %s was run %d times and ended %s", at, ran, of[0].Outcome)
		}
	}
	return n
}

// wall is a clock whose time of day can be set.
type wall struct {
	clock.Clock
	offset *atomic.Int64
}

func (c wall) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.offset.Load())) }

// A host whose own clock jumps by an hour, forward and back again, runs each tick when it is due by the
// store's clock, and says so.
// Holds: L12.
func TestAHostsClockThatJumpsMovesNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := wall{clock.Virtual{Start: time.Now()}, new(atomic.Int64)}
		h, other := w.hostWith(1, c), w.host(2, 0)
		from := time.Now().Truncate(time.Minute).Add(time.Minute)
		for _, h := range []*host{h, other} {
			h.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
		}
		for _, jump := range []time.Duration{time.Hour, -time.Hour, 0} {
			time.Sleep(10 * time.Minute)
			c.offset.Store(int64(jump))
		}
		time.Sleep(10 * time.Minute)
		to := time.Now().Truncate(time.Minute)
		h.stop()
		other.stop()
		if n := w.oncePerMinute(from, to); n[run.Succeeded] != 39 {
			t.Errorf("outcomes are %v", n)
		}
		told := strings.Join(w.reasons("clock-offset"), "\n")
		want := "this host's clock is 1h0m0s ahead of the store's; ticks and leases follow the store's\n" +
			"this host's clock is 1h0m0s behind the store's; ticks and leases follow the store's\nthis host's clock agrees with the store's again"
		if told != want {
			t.Errorf("the events say\n%s", told)
		}
	})
}

// Rule L12: the store's clock jumps. Forward: what was due in the time that never was is missed, or, of a few minutes,
// caught up on. Back: the repeated time runs nothing again. Each tick has one outcome.
// Holds: L12.
func TestTheStoresClockJumps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jump    time.Duration
		catchUp job.CatchUp
		missed  int
	}{
		"forward":                {time.Hour, job.CatchUpSkip, 58},
		"forward, and caught up": {10 * time.Minute, job.CatchUpAll, 0},
		"forward by too much":    {time.Hour, job.CatchUpAll, 58},
		"back":                   {-time.Hour, job.CatchUpSkip, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				offset := new(atomic.Int64)
				w.b = memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
				policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = c.catchUp, 3*time.Hour }
				from := time.Now().Truncate(time.Minute).Add(time.Minute)
				both := []*host{w.host(1, 0), w.host(2, 0)}
				for _, h := range both {
					h.start(t, newJob(t, "* * * * *", w.target(time.Second), policy))
				}
				time.Sleep(70*time.Minute + 30*time.Second)
				offset.Store(int64(c.jump))
				time.Sleep(80 * time.Minute)
				for _, h := range both {
					h.stop()
				}
				// What is due in the last minutes may not be settled yet.
				to := time.Now().Add(c.jump - 3*time.Minute).Truncate(time.Minute)
				n := w.oncePerMinute(from, to)
				if off := n[run.Missed] - c.missed; off < -3 || off > 3 {
					t.Errorf("outcomes are %v; want about %d missed", n, c.missed)
				}
				if rest := n[run.Missed] + n[run.Succeeded]; rest < int(to.Sub(from)/time.Minute)-2 {
					t.Errorf("outcomes are %v", n)
				}
				told := w.reasons("clock-step")
				if len(told) != 2 || !strings.Contains(told[0], "by "+c.jump.Abs().String()) { // one of each server
					t.Errorf("the events say %q", told)
				}
			})
		})
	}
}

// Rule T11: a job that is removed, or gets another name, while it runs: the run goes on to its outcome, what was
// due before the change is accounted for, and nothing after it is.
// Holds: T11.
func TestAJobThatIsRemovedWhileItRuns(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := w.host(1, 0)
			from := time.Now().Truncate(time.Minute).Add(time.Minute)
			h.start(t, newJob(t, "* * * * *", w.target(10*time.Minute), nil))
			time.Sleep(3*time.Minute + 30*time.Second) // the first tick runs, two were skipped
			var next []*scheduler.Job
			if renamed {
				j := newJob(t, "* * * * *", w.target(time.Second), nil)
				j.Spec.Name = "k"
				next = append(next, j)
			}
			if err := h.Load(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Minute)
			h.stop()
			rows := w.history()
			want := []run.Outcome{run.Succeeded, run.Skipped, run.Skipped}
			if len(rows) != len(want) {
				t.Fatalf("the removed job's ticks are %+v", rows)
			}
			for i, r := range rows {
				if !r.At.Equal(from.Add(time.Duration(i)*time.Minute)) || r.Outcome != want[i] {
					t.Errorf("tick %d is %+v, want %s", i, r, want[i])
				}
			}
			others, err := h.backend.History.Ticks(t.Context(), history.Query{Job: "app/k"})
			if err != nil || renamed && len(others) != 20 || !renamed && len(others) != 0 {
				t.Errorf("under the new name there are %d ticks: %v", len(others), err)
			}
		})
	}
}

// A registered definition that this host cannot read, since its zone has gone from the host's database, keeps
// no other job from being loaded, and can be replaced; that its ticks cannot be told is recorded.
// Holds: T11.
func TestADefinitionThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gone := newJob(t, "* * * * *", w.target(0), nil)
		gone.Spec.Name, gone.Spec.Timezone = "gone", "Atlantis/Capital"
		changed := gone.Spec
		changed.Name = "changed"
		for _, s := range []job.Spec{gone.Spec, changed} {
			if _, err := w.b.Store().Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: s.Key(), Definition: s.Definition()}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		now := newJob(t, "* * * * *", run.Func(func(context.Context, run.Call) error { return nil }), nil)
		now.Spec.Name = "changed"
		h := w.host(1, 0)
		from := time.Now().Truncate(time.Minute).Add(time.Minute)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil), now)
		time.Sleep(10 * time.Minute)
		h.stop()
		if n := w.oncePerMinute(from, from.Add(10*time.Minute)); n[run.Succeeded] != 10 {
			t.Errorf("another job's outcomes are %v", n)
		}
		rows, err := h.backend.History.Ticks(t.Context(), history.Query{Job: "app/changed"})
		if err != nil || len(rows) != 10 {
			t.Errorf("%d ticks of what replaced it: %v", len(rows), err)
		}
		told := w.reasons("definition-unreadable")
		if len(told) != 2 || !strings.Contains(told[0], `zone "Atlantis/Capital" is unknown`) {
			t.Errorf("the events say %q", told)
		}
		jobs, err := h.backend.Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/gone"}})
		if err != nil || len(jobs) != 1 || jobs[0].Removed.IsZero() {
			t.Errorf("what is no longer in the manifest is %+v: %v", jobs, err)
		}
	})
}

// A store that grows silent between a tick's claim and its start costs no tick: nothing ran, so it is tried again
// while it may still start.
// Holds: promise 10.
func TestATickThatTheStoreDidNotLetBeginIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.ticks.claimed = sync.OnceFunc(func() {
			h.link.Cut(true)
			time.AfterFunc(7*time.Second, func() { h.link.Cut(false) })
		})
		from := time.Now().Truncate(time.Minute).Add(time.Minute)
		h.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
		time.Sleep(3 * time.Minute)
		h.stop()
		to := time.Now().Truncate(time.Minute)
		if n := w.oncePerMinute(from, to); n[run.Succeeded] != 2 {
			t.Errorf("outcomes are %v", n)
		}
	})
}

// The lease is lost after the start was recorded, before anything was executed: that is no lost run.
// Holds: promise 10.
func TestARunThatNeverBeganIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		res := h.backend.Fire(t.Context(), scheduler.Fire{Key: "k", Target: w.target(0), Policy: job.DefaultPolicy(true),
			OnStart: func(r run.Record) {
				_, _, ok, err := h.backend.Keeper.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "test", Now: true})
				if !ok || err != nil {
					t.Error(ok, err)
				}
				time.Sleep(h.backend.Keeper.Margin().TTL)
			}})
		if res.Outcome != run.Unavailable || !strings.HasPrefix(res.Run.Reason, "nothing was executed") {
			t.Errorf("outcome %s, reason %q", res.Outcome, res.Run.Reason)
		}
	})
}

// A start that is carried out, and whose answer is lost, is asked for again: its tick runs. If it is never answered,
// the tick ends as one of which nothing was executed. In no case does somebody take it for crashed.
func TestAStartThatWasCarriedOutUnheard(t *testing.T) {
	for name, c := range map[string]struct {
		deaf time.Duration
		want run.Outcome
	}{
		"answered after a while": {10 * time.Second, run.Succeeded},
		"never answered":         {time.Hour, run.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				deaf, other := w.host(1, 0), w.host(2, 0)
				deaf.start(t, newJob(t, "0 * * * *", w.target(time.Second), nil))
				time.Sleep(time.Second)
				at := time.Now().Truncate(time.Hour).Add(time.Hour)
				hear := func(what string) {
					deaf.ticks.mu.Lock()
					deaf.ticks.deaf = what
					deaf.ticks.mu.Unlock()
				}
				hear("start")
				time.Sleep(time.Until(at))
				time.AfterFunc(c.deaf, func() { hear("") })
				other.start(t, newJob(t, "0 * * * *", w.target(time.Second), nil)) // it looks after what is left, and is late
				time.Sleep(5 * time.Minute)
				deaf.stop()
				other.stop()
				ran := 0
				if c.want.Ran() {
					ran = 1
				}
				row := w.rowAt(at)
				if row.Outcome != c.want || w.times(at.UTC()) != ran {
					t.Errorf("the tick was run %d times, and is %s: %q", w.times(at.UTC()), row.Outcome, row.Reason)
				}
			})
		})
	}
}

// The store is silent from the claim on, for less and for longer than a lease lasts, and back in time: the tick
// runs, once.
// Holds: L4.
func TestASilenceAfterTheClaimLosesNoTick(t *testing.T) {
	t.Parallel()
	for _, silence := range []time.Duration{3 * time.Second, 6 * time.Second, 10 * time.Second, 16 * time.Second, 40 * time.Second} {
		for _, when := range []string{"claim", "start"} {
			t.Run(fmt.Sprint(silence, " after the ", when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					h := w.host(1, 0)
					stop := sync.OnceFunc(func() {
						h.cut(true)
						time.AfterFunc(silence, func() { h.cut(false) })
					})
					at := time.Now().Truncate(time.Hour).Add(time.Hour)
					if when == "claim" {
						h.ticks.claimed = stop
					} else {
						h.ticks.Store = &afterStart{Store: h.ticks.Store, stop: stop}
					}
					h.start(t, newJob(t, "0 * * * *", w.target(time.Second), nil))
					time.Sleep(time.Until(at.Add(6 * time.Minute)))
					h.stop()
					if row := w.rowAt(at); row.Outcome != run.Succeeded || w.times(at.UTC()) != 1 {
						t.Errorf("the tick was run %d times, and is %s: %q", w.times(at.UTC()), row.Outcome, row.Reason)
					}
				})
			})
		}
	}
}

// afterStart is a store that carries out a start, whose answer is lost with all that comes after it.
type afterStart struct {
	tick.Store
	stop func()
	once atomic.Bool
}

func (s *afterStart) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	as, err := s.Store.Start(ctx, r)
	if s.once.Swap(true) {
		return as, err
	}
	s.stop()
	return nil, errors.Join(err, lease.ErrUnavailable)
}

// silentOn does not answer a batch with one job, as a database does not where that job's row is locked by somebody; or
// answers it with an error which, as all of the directory's do, says that the store is unavailable.
type silentOn struct {
	tick.Store
	job    string
	answer bool
}

func (s silentOn) none(ctx context.Context) ([]tick.Answer, error) {
	if !s.answer {
		<-ctx.Done()
	}
	return nil, fmt.Errorf("%w: something about one row", lease.ErrUnavailable)
}

func (s silentOn) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	if slices.ContainsFunc(r, func(q tick.ClaimRequest) bool { return q.Job == s.job }) {
		return s.none(ctx)
	}
	return s.Store.Claim(ctx, r)
}

func (s silentOn) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	if slices.ContainsFunc(r, func(q tick.CloseRequest) bool { return q.Run.Job == s.job }) {
		return s.none(ctx)
	}
	return s.Store.Close(ctx, r)
}

// A claim, or an outcome, that the store does not answer, or answers with an error that is called unavailable,
// costs no other job its tick, and no other key its release.
func TestOneSilentItemCostsNoOther(t *testing.T) {
	for _, c := range []struct {
		what   string
		answer bool
	}{{"claim", false}, {"claim", true}, {"close", false}, {"close", true}} {
		t.Run(fmt.Sprint(c.what, " answered ", c.answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				var st tick.Store = silentOn{h.ticks, "app/bad", c.answer}
				if c.what == "close" {
					st = onlyClose{h.ticks, silentOn{h.ticks, "app/bad", c.answer}}
				}
				h.backend.Book = tick.NewBook(st, h.backend.Keeper, h.backend.Self)
				var jobs []*scheduler.Job
				for i := range 60 {
					j := newJob(t, "*/2 * * * *", w.target(0), nil)
					j.Spec.Name = fmt.Sprint("j", i)
					if i == 30 {
						j.Spec.Name = "bad"
					}
					jobs = append(jobs, j)
				}
				h.start(t, jobs...)
				time.Sleep(time.Until(time.Now().Truncate(2 * time.Minute).Add(2*time.Minute + 5*time.Second)))
				count := func() (open int) {
					for _, j := range jobs {
						if j.Spec.Name == "bad" {
							continue
						}
						rows, err := w.b.Store().History.Ticks(t.Context(), history.Query{Job: j.Spec.Key(), Limit: 1})
						if err != nil {
							t.Fatal(err)
						}
						if len(rows) == 0 || rows[0].State != tick.Closed {
							open++
						}
					}
					return open
				}
				for _, d := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 10 * time.Second, 20 * time.Second} {
					time.Sleep(d)
					if n := count(); n > 0 {
						t.Errorf("%s after the tick %d of the 59 others have no outcome, and hold their keys or have not begun", time.Since(time.Now().Truncate(2*time.Minute)), n)
					}
				}
				h.cancel()
				h.Hurry()
				<-h.done
			})
		})
	}
}

type onlyClose struct {
	tick.Store
	close silentOn
}

func (s onlyClose) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	return s.close.Close(ctx, r)
}

// Such a claim costs nobody a tick, however often it is asked for beside theirs.
// Holds: L4.
func TestOneSilentClaimLosesNoOthersTick(t *testing.T) {
	for _, answer := range []bool{false, true} {
		t.Run(fmt.Sprint("answered ", answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				h.backend.Book = tick.NewBook(silentOn{h.ticks, "app/bad", answer}, h.backend.Keeper, h.backend.Self)
				var jobs []*scheduler.Job
				for i := range 60 {
					j := newJob(t, "* * * * *", w.target(0), nil)
					j.Spec.Name = fmt.Sprint("j", i)
					if i == 30 {
						j.Spec.Name = "bad"
					}
					jobs = append(jobs, j)
				}
				h.start(t, jobs...)
				time.Sleep(10*time.Minute + 50*time.Second)
				lost, late := 0, time.Duration(0)
				for _, j := range jobs {
					if j.Spec.Name == "bad" {
						continue
					}
					rows, err := w.b.Store().History.Ticks(t.Context(), history.Query{Job: j.Spec.Key(), Limit: 100})
					if err != nil {
						t.Fatal(err)
					}
					ran := 0
					for _, r := range rows {
						if r.Outcome == run.Succeeded {
							ran++
							late = max(late, r.Started.Sub(r.At))
						}
					}
					lost += 10 - min(ran, 10)
				}
				if lost > 0 || late > 15*time.Second {
					t.Errorf("of 590 ticks of other jobs %d were not run, and the latest start was %s late", lost, late)
				}
				h.cancel()
				h.Hurry()
				<-h.done
			})
		})
	}
}
