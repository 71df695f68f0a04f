package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// allRan fails for each tick of a schedule between two instants that was not run exactly once.
func (w *world) allRan(t *testing.T, from, to time.Time, every time.Duration) {
	t.Helper()
	n := 0
	for at := from.UTC().Truncate(every).Add(every); at.Before(to); at = at.Add(every) {
		if n++; w.times(at) != 1 {
			t.Errorf("tick %s was run %d times", at, w.times(at))
		}
	}
	if n == 0 {
		t.Error("there was no tick")
	}
	for _, r := range w.history() {
		if r.At.After(from) && r.At.Before(to) && r.Outcome != run.Succeeded {
			t.Errorf("tick %s … %s is %s: %s", r.At, r.Through, r.Outcome, r.Reason)
		}
	}
}

// Rule T11: a deploy between a tick and its jittered start loses it, neither by a reload, nor by another
// server, nor by a new one in place of the old. It starts when it was to start, under the policy that was in
// force when it was due.
// Holds: T11.
func TestADeployBeforeAJitteredStart(t *testing.T) {
	for name, deploy := range map[string]func(*testing.T, *world, *host, *scheduler.Job) *host{
		"reload": func(t *testing.T, _ *world, h *host, j *scheduler.Job) *host {
			if err := h.Load(t.Context(), []*scheduler.Job{j}); err != nil {
				t.Fatal(err)
			}
			return h
		},
		"a new server": func(t *testing.T, w *world, h *host, j *scheduler.Job) *host {
			h.stop()
			next := w.host(2, 0)
			next.start(t, j)
			return next
		},
		"another server": func(t *testing.T, w *world, h *host, j *scheduler.Job) *host {
			next := w.host(2, 0)
			next.start(t, j)
			t.Cleanup(h.stop)
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(grace time.Duration) func(*job.Policy) {
					return func(p *job.Policy) { p.Jitter, p.StopGrace = 55*time.Second, grace }
				}
				j := newJob(t, "* * * * *", w.target(time.Second), policy(10*time.Second))
				share := j.Starts(time.Time{}).Sub(time.Time{})
				if share < 10*time.Second || share > 50*time.Second {
					t.Fatalf("it starts %s after its tick: choose another name for this test", share)
				}
				h := w.host(1, 0)
				h.start(t, j)
				begun := time.Now()
				time.Sleep(3*time.Minute + 3*time.Second) // between a tick and its start
				h = deploy(t, w, h, newJob(t, "* * * * *", w.target(time.Second), policy(11*time.Second)))
				time.Sleep(3 * time.Minute)
				h.stop()
				w.allRan(t, begun, time.Now().Add(-time.Minute), time.Minute)
				for _, r := range w.history() {
					if late := r.Started.Sub(r.At); late < share || late > share+2*time.Second {
						t.Errorf("tick %s started %s after it was due, and was to start after %s", r.At, late, share)
					}
				}
			})
		})
	}
}

// Rule T11: whether a tick that nobody was there for is caught up on is said by the definition in force when it was
// due, whatever was changed before somebody came: here during an outage of all servers.
// Holds: T11.
func TestCatchUpIsByTheDefinitionOfItsTime(t *testing.T) {
	skips := func(p *job.Policy) { p.CatchUp = job.CatchUpSkip }
	for name, c := range map[string]struct {
		before, after func(*job.Policy)
		expr          string
		caught        int
	}{
		"all, then another grace":    {catchesUp, func(p *job.Policy) { catchesUp(p); p.StopGrace++ }, "* * * * *", 20},
		"all, then none":             {catchesUp, skips, "* * * * *", 20},
		"none, then all":             {skips, catchesUp, "* * * * *", 0},
		"all, then another schedule": {catchesUp, skips, "30 0 1 1 *", 20},
		"the latest, then all":       {func(p *job.Policy) { p.CatchUp = job.CatchUpLatest }, catchesUp, "* * * * *", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				h.start(t, newJob(t, "* * * * *", w.target(time.Second), c.before))
				time.Sleep(time.Minute)
				h.stop()
				away := time.Now()
				time.Sleep(20*time.Minute + 55*time.Second) // too late for the tick of this minute
				back := time.Now()
				next := []*host{w.host(2, 0), w.host(3, 0)}
				for _, h := range next {
					h.start(t, newJob(t, c.expr, w.target(time.Second), c.after))
				}
				time.Sleep(10 * time.Minute)
				for _, h := range next {
					h.stop()
				}
				caught := 0
				for at := range w.ran() {
					if at.After(away) && at.Before(back) {
						caught++
					}
				}
				if caught != c.caught {
					t.Errorf("%d of the ticks that nobody was there for were run, want %d: %v", caught, c.caught, w.outcomes())
				}
				told := 0
				for _, r := range w.history() {
					if r.At.After(away) && r.At.Before(back) {
						told += max(r.Count, 1)
					}
				}
				if told < 20 {
					t.Errorf("%d of these 20 ticks have an outcome", told)
				}
				w.once(t)
			})
		})
	}
}

// Rule T11: a deploy that flaps between two versions, each on a server of its own, loses no tick, and what is kept of
// the past stays bounded.
// Holds: T11.
func TestADeployThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hosts := []*host{w.host(1, 0), w.host(2, 0)}
		load := func(i int) *scheduler.Job {
			return newJob(t, "@every 1s", w.target(50*time.Millisecond), func(p *job.Policy) { p.StopGrace = time.Duration(10+i) * time.Second })
		}
		for i, h := range hosts {
			h.start(t, load(i))
		}
		time.Sleep(3 * time.Second)
		begun := time.Now()
		for i := range 60 {
			if err := hosts[i%2].Load(t.Context(), []*scheduler.Job{load(i % 2)}); err != nil {
				t.Fatal(err)
			}
			all, err := w.registered().Definitions()
			if err != nil || len(all) > 9 {
				t.Fatalf("%d definitions are kept: %v", len(all), err)
			}
			time.Sleep(1300 * time.Millisecond)
		}
		ended := time.Now()
		time.Sleep(time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		w.allRan(t, begun, ended, time.Second)
	})
}

// overtaken is a store to which a claim takes a while, a registration less, and its answer a while again.
type overtaken struct {
	tick.Store
	claim, set, answer time.Duration
}

func (o overtaken) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	time.Sleep(o.claim)
	return o.Store.Claim(ctx, r)
}

func (o overtaken) SetJobs(ctx context.Context, r []tick.JobRequest) ([]tick.Job, error) {
	time.Sleep(o.set)
	known, err := o.Store.SetJobs(ctx, r)
	time.Sleep(o.answer)
	return known, err
}

// Rule T11: a tick whose claim is refused, since a load of the same server has overtaken it, is claimed again under
// what is registered then, be the load over by that time or not.
// Holds: T11.
func TestAClaimThatALoadOvertakes(t *testing.T) {
	for name, answer := range map[string]time.Duration{"which is over": 0, "which goes on": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				h.backend.Ticks = overtaken{h.backend.Ticks, 400 * time.Millisecond, 200 * time.Millisecond, answer}
				h.backend.Book = tick.NewBook(h.backend.Ticks, h.backend.Keeper, h.backend.Self)
				h.Server = scheduler.NewServer(h.backend, "app")
				load := func(grace time.Duration) *scheduler.Job {
					return newJob(t, "* * * * *", w.target(time.Second), func(p *job.Policy) { p.StopGrace = grace })
				}
				h.start(t, load(10*time.Second))
				begun := time.Now()
				time.Sleep(time.Until(begun.Truncate(time.Minute).Add(2*time.Minute - 100*time.Millisecond))) // the claim begins when the registration is on its way
				if err := h.Load(t.Context(), []*scheduler.Job{load(11 * time.Second)}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2*time.Minute + 30*time.Second)
				ended := time.Now()
				h.stop()
				w.allRan(t, begun, ended, time.Minute)
			})
		})
	}
}

// The same where another server's load came first, after the tick: the tick belongs to the definition of before, which
// this server's own load takes over with it.
// Holds: T11.
func TestAClaimThatAnothersLoadOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, other := w.host(1, 0), w.host(2, 0)
		h.backend.Ticks = overtaken{h.backend.Ticks, 400 * time.Millisecond, time.Second, 0}
		h.backend.Book = tick.NewBook(h.backend.Ticks, h.backend.Keeper, h.backend.Self)
		h.Server = scheduler.NewServer(h.backend, "app")
		load := func(grace time.Duration) *scheduler.Job {
			return newJob(t, "* * * * *", w.target(time.Second), func(p *job.Policy) { p.StopGrace = grace })
		}
		h.start(t, load(10*time.Second))
		at := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
		go func() {
			time.Sleep(time.Until(at.Add(100 * time.Millisecond)))
			if err := other.Load(t.Context(), []*scheduler.Job{load(11 * time.Second)}); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Until(at.Add(-100 * time.Millisecond)))
		if err := h.Load(t.Context(), []*scheduler.Job{load(11 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if n := w.times(at); n != 1 {
			t.Errorf("3 s after the load, the tick ran %d times", n)
		}
		h.stop()
	})
}

// farTicks counts the requests that a load makes, each of which takes a while.
type farTicks struct {
	tick.Store
	n    *atomic.Int64
	most *atomic.Int64 // definitions in one request
	took time.Duration
}

func (c farTicks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	c.n.Add(1)
	time.Sleep(c.took)
	return c.Store.Jobs(ctx, q)
}

func (c farTicks) SetJobs(ctx context.Context, r []tick.JobRequest) ([]tick.Job, error) {
	c.n.Add(1)
	if n := int64(len(r)); n > c.most.Load() {
		c.most.Store(n)
	}
	time.Sleep(c.took)
	return c.Store.SetJobs(ctx, r)
}

func (c farTicks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	c.n.Add(1)
	time.Sleep(c.took)
	return c.Store.Settle(ctx, r)
}

type farHistory struct {
	history.Store
	far farTicks
}

func (c farHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	c.far.n.Add(1)
	time.Sleep(c.far.took)
	return c.Store.Ticks(ctx, q)
}

// A reload that changes many definitions makes few requests, however far away the store is; one that removes many
// concludes them side by side.
// Holds: T11.
func TestAReloadOfManyDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 1200
		load := func(grace time.Duration) (all []*scheduler.Job) {
			for i := range many {
				j := newJob(t, "* * * * *", w.target(0), func(p *job.Policy) { p.StopGrace = grace })
				j.Spec.Name = fmt.Sprint("j", i)
				j.Dormant = true
				all = append(all, j)
			}
			return all
		}
		h := w.host(1, 0)
		if err := h.Load(t.Context(), load(time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // each has open ticks
		c := farTicks{h.backend.Ticks, new(atomic.Int64), new(atomic.Int64), 160 * time.Millisecond}
		h.backend.Ticks, h.backend.History = c, farHistory{h.backend.History, c}
		if err := h.Load(t.Context(), load(2*time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := c.n.Load(); n > 10 {
			t.Errorf("%d requests to change %d definitions", n, many)
		}
		if n := c.most.Load(); n > 500 {
			t.Errorf("%d definitions in one request", n)
		}
		begun := time.Now()
		if err := h.Load(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > many*5*160*time.Millisecond/10 {
			t.Errorf("to remove %d jobs with open ticks took %s", many, took)
		}
		jobs, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range jobs {
			if strings.HasPrefix(k.Name, "app/j") && (k.Removed.IsZero() || k.Removed.Sub(k.Mark) > 2*time.Minute) {
				t.Fatalf("%s is settled up to %s and was removed at %s", k.Name, k.Mark, k.Removed)
			}
		}
	})
}

// allRows are all of the job's rows, the latest first.
func (w *world) allRows(t *testing.T) (all []tick.Tick) {
	t.Helper()
	for q := (history.Query{Job: "app/j", Limit: 5_000}); ; {
		rows, err := w.b.Store().History.Ticks(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
		if len(rows) < q.Limit {
			return all
		}
		q.To = rows[len(rows)-1].At
	}
}

// concluded is how many ticks have an outcome.
func (w *world) concluded(t *testing.T) (n int) {
	t.Helper()
	for _, r := range w.allRows(t) {
		if r.State == tick.Closed {
			n += max(r.Count, 1)
		}
	}
	return n
}

// slowSettle takes its time to settle.
type slowSettle struct {
	tick.Store
	took time.Duration
}

func (s slowSettle) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	time.Sleep(s.took)
	return s.Store.Settle(ctx, r)
}

// Rule T11: each tick of a job has its outcome before the job is removed, also where there are more of them than one
// step settles, where one is not finished yet, and where they take longer than one load may.
// Holds: T11.
func TestARemovedJobHasAllItsOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		unfinished time.Duration // when there was such a tick, before the removal
		took       time.Duration // a step
		loads      int
	}{
		"in ranges":           {loads: 1},
		"one by one":          {unfinished: 7 * time.Hour, loads: 1},
		"both":                {unfinished: 4 * time.Hour, loads: 1},
		"with the next loads": {took: 40 * time.Second, loads: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				h.start(t, newJob(t, "@every 1s", w.target(0), func(p *job.Policy) { p.CatchUp = job.CatchUpSkip }))
				time.Sleep(10 * time.Second)
				h.stop()
				time.Sleep(7*time.Hour - c.unfinished)
				unfinished := 0
				if c.unfinished > 0 {
					unfinished = 1
					w.leave(t, "app/j")
				}
				time.Sleep(c.unfinished)
				h = w.host(2, 0)
				h.backend.Ticks = slowSettle{h.backend.Ticks, c.took}
				for i := range c.loads {
					if !w.registered().Removed.IsZero() {
						t.Errorf("%d loads removed it", i)
					}
					if err := h.Load(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				known := w.registered()
				if known.Removed.IsZero() {
					t.Fatal("it was not removed")
				}
				want := int(known.Removed.Sub(known.Since)/time.Second) - unfinished
				if n := w.concluded(t); n < want-1 || n > want+1 {
					t.Errorf("%d of %d ticks have an outcome", n, want)
				}
				if n := len(w.allRows(t)); unfinished == 0 && n > 50 {
					t.Errorf("they take %d rows, though nothing holds up the mark", n)
				}
			})
		})
	}
}

// changedBeside is a store in which something happens once after the registry was read.
type changedBeside struct {
	tick.Store
	happens func()
}

func (s *changedBeside) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	jobs, err := s.Store.Jobs(ctx, q)
	if then := s.happens; then != nil && len(q.Names) == 0 {
		s.happens = nil
		then()
	}
	return jobs, err
}

// Rule T11: a removal is made of the definition that was concluded: if another one was registered meanwhile, the load
// begins anew, and all that either leaves open gets its outcome.
// Holds: T11.
func TestARemovalBesideAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		h.stop()
		time.Sleep(30 * time.Minute)
		changes, removes := w.host(2, 0), w.host(3, 0)
		removes.backend.Ticks = &changedBeside{removes.backend.Ticks, func() {
			if err := changes.Load(t.Context(), []*scheduler.Job{newJob(t, "*/7 * * * *", w.target(0), nil)}); err != nil {
				t.Error(err)
			}
		}}
		removes.start(t)
		time.Sleep(5 * time.Minute)
		removes.stop()
		if k := w.registered(); k.Removed.IsZero() || k.Generation != 2 {
			t.Errorf("it is not removed, or not changed: %+v", k)
		}
		if n := w.outcomes()[run.Missed]; n != 30 {
			t.Errorf("%d of 30 ticks that nobody was there for are missed", n)
		}
	})
}

// A job drops only those of its definitions of which each tick has its outcome, also where those of many thousands
// before it do.
// Holds: T11.
func TestADefinitionIsKeptForItsLastTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		load := func(i int) {
			t.Helper()
			j := newJob(t, "@every 1s", w.target(0), func(p *job.Policy) { p.StopGrace = time.Duration(10+i) * time.Second })
			if err := h.Load(t.Context(), []*scheduler.Job{j}); err != nil {
				t.Fatal(err)
			}
		}
		load(0)
		since := w.registered().Since
		time.Sleep(time.Second)
		w.leave(t, "app/j") // which holds the mark up
		time.Sleep(10_000 * time.Second)
		now := time.Now().UTC().Truncate(time.Second)
		for at := now.Add(-9999 * time.Second); !at.After(now); at = at.Add(time.Second) {
			a, err := h.backend.Book.Claim(t.Context(), tick.Want{Job: "app/j", At: at, Outcome: run.Skipped, Reason: run.ReasonWindow})
			if err != nil || a.Status != tick.Won {
				t.Fatal(a, err)
			}
		}
		time.Sleep(100 * time.Second)
		changed := time.Now()
		for i := range 12 {
			load(i + 1)
			time.Sleep(2 * time.Second)
		}
		if err := h.Load(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		n, want := 0, int(changed.Sub(since)/time.Second)
		for _, r := range w.allRows(t) {
			if r.At.Before(changed) {
				n += max(r.Count, 1)
			}
		}
		if n < want-1 || n > want+1 {
			t.Errorf("%d of %d ticks of the first definition have a row", n, want)
		}
	})
}
