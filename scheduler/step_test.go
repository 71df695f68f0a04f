package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// stepping is a world whose store has a clock that can be set; step moves it.
func stepping(t *testing.T) (w *world, step func(time.Duration)) {
	w = newWorld(t)
	off := new(atomic.Int64)
	w.b = memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
	return w, func(d time.Duration) { off.Add(int64(d)) }
}

// fleet starts servers of one job.
func (w *world) fleet(n int, expr string, change func(*job.Policy)) (stop func()) {
	w.t.Helper()
	var hosts []*host
	for i := range n {
		h := w.host(uint64(i+1), 0)
		h.start(w.t, newJob(w.t, expr, w.target(time.Second), change))
		hosts = append(hosts, h)
	}
	return func() {
		for _, h := range hosts {
			h.stop()
		}
	}
}

func (w *world) registered() tick.Job {
	w.t.Helper()
	jobs, err := w.b.Store().Ticks.Jobs(w.t.Context(), tick.JobQuery{Names: []string{"app/j"}})
	if err != nil || len(jobs) != 1 {
		w.t.Fatalf("the registered jobs are %+v: %v", jobs, err)
	}
	return jobs[0]
}

// Rule L12: a store's clock that is wrong for ten seconds, from three seconds before a daily tick whose time to
// start is five minutes, loses that tick for nobody, and runs it once.
// Holds: promise 10, L12.
func TestAGlitchLosesNoTick(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour, 20 * time.Second, -20 * time.Second, 30 * 24 * time.Hour, -30 * 24 * time.Hour} {
		for _, catchUp := range []job.CatchUp{job.CatchUpSkip, job.CatchUpLatest} {
			t.Run(fmt.Sprint(off, " ", catchUp), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, step := stepping(t)
					stop := w.fleet(2, "0 1 * * *", func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = catchUp, 2*time.Hour })
					at := time.Now().Truncate(24 * time.Hour).Add(time.Hour).UTC()
					time.Sleep(time.Until(at.Add(-3 * time.Second)))
					step(off)
					time.Sleep(10 * time.Second)
					step(-off)
					time.Sleep(10 * time.Minute)
					stop()
					if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded || w.times(at) != 1 {
						t.Errorf("it was run %d times; the rows are %+v", w.times(at), rows)
					}
				})
			})
		}
	}
}

// The same tick, where the clock goes back for good: it is run once, as soon as the store's clock comes to it.
// Holds: L12.
func TestATickThatTheStoresClockHasNotComeTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(2, "0 1 * * *", nil)
		at := time.Now().Truncate(24 * time.Hour).Add(time.Hour).UTC()
		time.Sleep(time.Until(at.Add(-3 * time.Second)))
		step(-time.Hour)
		time.Sleep(30 * time.Minute)
		if rows := w.history(); len(rows) != 0 || w.times(at) != 0 {
			t.Errorf("before its time it was run %d times; the rows are %+v", w.times(at), rows)
		}
		time.Sleep(35 * time.Minute)
		stop()
		if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded || w.times(at) != 1 {
			t.Errorf("it was run %d times; the rows are %+v", w.times(at), rows)
		}
	})
}

// Rule L12: while the store's clock is behind the schedules, nothing is settled that lies ahead of it, and what it has
// come to twice is run once.
// Holds: promise 10, L12.
func TestNothingAheadOfTheStoresClockIsSettled(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"*/5 * * * * *", "* * * * *"} {
		for _, back := range []time.Duration{20 * time.Second, 10 * time.Minute, time.Hour} {
			t.Run(fmt.Sprint(expr, " ", back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, step := stepping(t)
					stop := w.fleet(3, expr, nil)
					time.Sleep(5*time.Minute + time.Second)
					highest := w.registered().Mark
					step(-back)
					for end := time.Now().Add(2*time.Minute + back); time.Now().Before(end); time.Sleep(time.Second) {
						mark := w.registered().Mark
						if now := time.Now().Add(-back); mark.After(highest.Add(20*time.Second)) && mark.After(now) {
							t.Fatalf("it is settled up to %s; the store's clock says %s", mark, now)
						}
					}
					time.Sleep(10 * time.Minute)
					if a := scheduler.Ahead(w.registered(), time.Now().Add(-back)); a != 0 {
						t.Errorf("it is settled %s ahead of the store's clock", a)
					}
					stop()
					w.once(t)
					if n := w.missed(); n > 20 { // what fell due by the new line while the old one was followed
						t.Errorf("%d ticks are missed", n)
					}
				})
			})
		}
	}
}

// once checks that no tick has more than one run, and no instant more than one row.
func (w *world) once(t *testing.T) {
	t.Helper()
	for at, n := range w.ran() {
		if n != 1 {
			t.Errorf("tick %s was run %d times", at, n)
		}
	}
	var through time.Time
	for _, r := range w.history() {
		if !r.At.After(through) {
			t.Errorf("the row of %s overlaps with one up to %s", r.At, through)
		}
		if through = r.At; r.Through.After(through) {
			through = r.Through
		}
	}
}

func (w *world) missed() (n int) {
	w.t.Helper()
	for _, r := range w.history() {
		if r.Outcome == run.Missed {
			n += max(r.Count, 1)
		}
	}
	return n
}

// A store's clock that was fast for longer than a step has to last, and is corrected: the jobs are not silent
// until the clock has caught up with itself, no tick is run twice, and what was missed in the time that has not
// come yet is due.
// Holds: promise 10, L12.
func TestAFastClockThatIsCorrected(t *testing.T) {
	t.Parallel()
	for _, fast := range []time.Duration{20 * time.Second, time.Hour, 100 * 24 * time.Hour} {
		for _, catchUp := range []job.CatchUp{job.CatchUpSkip, job.CatchUpLatest, job.CatchUpAll} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprint(fast, " ", catchUp, " ", restarted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w, step := stepping(t)
						change := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = catchUp, 2*time.Hour }
						stop := w.fleet(2, "*/10 * * * * *", change)
						time.Sleep(3 * time.Minute)
						step(fast)
						time.Sleep(3 * time.Minute)
						step(-fast)
						if restarted {
							stop()
							time.Sleep(5 * time.Second)
							stop = w.fleet(2, "*/10 * * * * *", change)
						}
						time.Sleep(90 * time.Second)
						before := len(w.ran())
						time.Sleep(2 * time.Minute)
						if n := len(w.ran()) - before; n < 11 {
							t.Errorf("%d ticks were run in two minutes", n)
						}
						if a := scheduler.Ahead(w.registered(), time.Now()); a != 0 {
							t.Errorf("it is settled %s ahead of the store's clock", a)
						}
						for _, r := range w.history() {
							if r.Outcome == run.Missed && r.At.After(time.Now()) {
								t.Errorf("%s … %s is missed already", r.At, r.Through)
							}
						}
						if told := w.reasons("mark-brought-back"); fast > time.Minute && (len(told) == 0 || !strings.Contains(told[0], "ahead of the store's clock")) {
							t.Errorf("the events say %q", told)
						}
						stop()
						w.once(t)
					})
				})
			}
		}
	}
}

// splitElsewhere is a store in which another process splits each range just before it is asked to, the first time.
type splitElsewhere struct {
	tick.Store
	was *bool
}

func (s splitElsewhere) Split(ctx context.Context, r tick.SplitRequest) (tick.Answer, error) {
	a, err := s.Store.Split(ctx, r)
	if !*s.was && err == nil {
		*s.was = true
		a.Status = tick.Taken
	}
	return a, err
}

// Several servers that take back at once what a fast clock settled do not lower the mark below a range that another
// one has just split: the ticks of its second part would have two outcomes.
// Holds: promise 10, L12.
func TestWhatOthersTakeBackIsNotLeftAheadOfTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(1, "*/10 * * * * *", nil)
		time.Sleep(time.Minute)
		stop()
		time.Sleep(5 * time.Minute) // nobody is there: one range, from here into what the fast clock says
		step(time.Hour)
		h, was := w.host(1, 0), false
		h.backend.Ticks = splitElsewhere{h.backend.Ticks, &was}
		h.backend.Book = tick.NewBook(h.backend.Ticks, h.backend.Keeper, h.backend.Self)
		h.start(t, newJob(t, "*/10 * * * * *", w.target(time.Second), nil))
		time.Sleep(20 * time.Second)
		step(-time.Hour)
		time.Sleep(5 * time.Minute)
		for _, r := range w.history() {
			if r.Through.After(time.Now()) {
				t.Errorf("%s … %s is %s already", r.At, r.Through, r.Outcome)
			}
		}
		if a := scheduler.Ahead(w.registered(), time.Now()); a != 0 || !was {
			t.Errorf("it is settled %s ahead of the store's clock; a range was split elsewhere: %v", a, was)
		}
		h.stop()
		w.once(t)
	})
}

// The same where no server works on the job any more, only processes that come for one tick each, and a tick's time to
// start is shorter than the minute for which the clock is watched: one of them takes back what was settled too early.
// Holds: L12.
func TestAFastClockThatIsCorrectedForThoseWhoComeForOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(1, "*/10 * * * * *", nil)
		time.Sleep(time.Minute)
		step(time.Hour)
		time.Sleep(3 * time.Minute)
		stop()
		step(-time.Hour)
		var all sync.WaitGroup
		before := 0
		for n := range 30 {
			if n == 15 {
				before = len(w.ran())
			}
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10*time.Second + 50*time.Millisecond)))
			at, p := time.Now().Truncate(10*time.Second).UTC(), w.host(uint64(100+n), 0).backend
			all.Go(func() {
				_, _, err := p.Single(t.Context(), tick.Want{Job: "app/j", At: at, StartBy: at.Add(5 * time.Second)}, scheduler.Fire{Key: "app/j", Target: w.target(time.Second)})
				if err != nil && !errors.Is(err, tick.ErrTooLate) {
					t.Error(err)
				}
				_ = p.Book.Release(t.Context())
			})
		}
		all.Wait()
		if n := len(w.ran()) - before; n < 15 {
			t.Errorf("only %d of the last 15 ticks were run", n)
		}
		if told := w.reasons("mark-brought-back"); len(told) == 0 {
			t.Error("no event says that the mark was brought back")
		}
		w.once(t)
	})
}

// Who waited for longer than that minute, since the clock was stepped once more, runs its tick all the same; meanwhile
// it asks once a second.
func TestATickThatWaitedForAFastClockForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(1, "*/10 * * * * *", nil)
		time.Sleep(time.Minute)
		step(time.Hour)
		time.Sleep(3 * time.Minute)
		stop()
		step(-time.Hour)
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10*time.Second + 50*time.Millisecond)))
		h := w.host(100, 0)
		at, p := time.Now().Truncate(10*time.Second).UTC(), h.backend
		time.AfterFunc(50*time.Second, func() { step(10 * time.Second) })
		want := tick.Want{Job: "app/j", At: at, StartBy: at.Add(5 * time.Minute)}
		_, a, err := p.Single(t.Context(), want, scheduler.Fire{Key: "app/j", Target: w.target(time.Second)})
		if err != nil || w.times(at) != 1 {
			t.Errorf("the tick was run %d times: %v, %v", w.times(at), a.Status, err)
		}
		if h.ticks.claims > 150 {
			t.Errorf("it was asked for %d times in two minutes", h.ticks.claims)
		}
		_ = p.Book.Release(t.Context())
		w.once(t)
	})
}

// Ticks that the store's clock jumps over by more than a quarter of an hour are not caught up on, and are due when
// their time comes after all.
// Holds: promise 10, L12.
func TestAJumpIsNotCaughtUpOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(2, "0 * * * *", func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 200*24*time.Hour })
		from := time.Now().Truncate(time.Hour).UTC()
		time.Sleep(30 * time.Minute)
		step(10 * 24 * time.Hour)
		time.Sleep(10 * time.Minute)
		if n := len(w.ran()); n > 0 {
			t.Errorf("%d ticks were caught up on", n)
		}
		if rows := w.history(); len(rows) != 1 || rows[0].Count < 239 || rows[0].Reason != "the store's clock jumped over it" {
			t.Errorf("the rows are %+v", rows)
		}
		step(-10 * 24 * time.Hour)
		time.Sleep(5 * time.Hour)
		stop()
		for i := range 5 {
			if at := from.Add(time.Duration(i+1) * time.Hour); w.times(at) != 1 {
				t.Errorf("tick %s was run %d times", at, w.times(at))
			}
		}
		w.once(t)
	})
}

// A clock that is 100 days fast for some hours makes nothing so old that it is forgotten.
// Holds: L12.
func TestAJumpForgetsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(2, "*/10 * * * *", nil)
		time.Sleep(2 * time.Hour)
		n := len(w.history())
		step(100 * 24 * time.Hour)
		time.Sleep(5 * time.Hour)
		step(-100 * 24 * time.Hour)
		time.Sleep(2 * time.Hour)
		stop()
		if got := len(w.history()); n < 10 || got < n+35 {
			t.Errorf("of %d rows before, and 40 since, %d are left", n, got)
		}
		w.once(t)
	})
}

// Where no server is up, a process that comes for one tick takes back what is in its way, within the time that the
// tick has to start.
func TestASingleTickBelowAMarkThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		stop := w.fleet(1, "*/10 * * * *", nil)
		time.Sleep(25 * time.Minute)
		step(5 * time.Hour)
		time.Sleep(10 * time.Minute)
		stop()
		step(-5 * time.Hour)
		at := time.Now().Truncate(10 * time.Minute).Add(10 * time.Minute).UTC()
		time.Sleep(time.Until(at))
		if scheduler.Ahead(w.registered(), time.Now()) == 0 {
			t.Fatal("the mark is not ahead")
		}
		h := w.host(9, 0)
		res, a, err := h.backend.Trigger(t.Context(), t.Context(), newJob(t, "*/10 * * * *", w.target(time.Second), nil), at)
		if err != nil || a.Status != tick.Won || res.Outcome != run.Succeeded {
			t.Errorf("%+v, %v: %v", res, a.Status, err)
		}
		w.once(t)
	})
}

// A tick that a server has in hand, asking for it or waiting to start it, is not fired there once more when the
// schedules follow a clock that stepped back: the second fire would have the same claim, and skip, replace or
// outwait the first.
// Holds: L12.
func TestATickInHandIsNotFiredAgain(t *testing.T) {
	t.Parallel()
	for _, policy := range []job.Concurrency{job.Forbid, job.Replace, job.Wait, job.Allow} {
		t.Run("asked for, "+string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, step := stepping(t)
				h := w.host(1, 0)
				h.start(t, newJob(t, "0 1 * * *", w.target(10*time.Minute), func(p *job.Policy) { p.Concurrency = policy }))
				at := time.Now().Truncate(24 * time.Hour).Add(time.Hour).UTC()
				time.Sleep(time.Until(at.Add(-3 * time.Second)))
				step(-2 * time.Minute)
				time.Sleep(20 * time.Minute)
				h.stop()
				if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded || w.times(at) != 1 {
					t.Errorf("it was run %d times; the rows are %+v", w.times(at), rows)
				}
				if told := w.reasons("tick-skipped"); len(told) > 0 {
					t.Errorf("the events say %q", told)
				}
			})
		})
	}
	t.Run("waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, step := stepping(t)
			h := w.host(1, 0)
			h.start(t, newJob(t, "0 1,2 * * *", w.target(150*time.Minute), func(p *job.Policy) { p.Concurrency = job.Wait }))
			at := time.Now().Truncate(24 * time.Hour).Add(2 * time.Hour).UTC()
			time.Sleep(time.Until(at.Add(30 * time.Second)))
			step(-time.Hour)
			time.Sleep(6 * time.Hour)
			h.stop()
			if w.times(at) != 1 {
				t.Errorf("it was run %d times; the rows are %+v", w.times(at), w.history())
			}
			w.once(t)
		})
	})
}
