package scheduler_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// dying is the store of a host that dies when it is about to start something.
type dying struct {
	tick.Store
	die func()
}

func (d dying) Start(context.Context, []tick.StartRequest) ([]tick.Answer, error) {
	d.die()
	return nil, lease.ErrUnavailable
}

// diesBeforeItStarts has a host claim what it may, and die before it starts it.
func (h *host) diesBeforeItStarts() { h.ticks.Store = &dying{h.ticks.Store, func() { h.cut(true) }} }

// hanging works until it is told to stop.
func hanging() run.Target {
	return run.Func(func(ctx context.Context, _ run.Call) error { <-ctx.Done(); return context.Cause(ctx) })
}

func untilNext(every time.Duration) {
	now := time.Now()
	time.Sleep(now.Truncate(every).Add(every).Sub(now))
}

// Rules T2 and T3: a tick ran, its server died, and so did the one that was to run it again, before it
// began. Whoever is there within the catch-up window runs it again, however long ago it was to start;
// after that it ended as its last run did. It was never missed: it ran.
// Holds: promise 15, T2, T3.
func TestARerunThatNeverBegan(t *testing.T) {
	const every, window = 5 * time.Minute, 30 * time.Minute
	for name, c := range map[string]struct {
		shutdown bool          // the first server's end, instead of a crash
		later    time.Duration // until a third one comes
		want     run.Outcome
		runs     int
		reason   string
	}{
		"in time":                     {false, 30 * time.Second, run.Succeeded, 1, ""},
		"past its time to start":      {false, 20 * time.Minute, run.Succeeded, 1, ""},
		"past the window":             {false, 40 * time.Minute, run.Crashed, 0, "not run again: claimed by host-2"},
		"a shutdown, past the window": {true, 40 * time.Minute, run.Canceled, 0, "not run again: claimed by host-2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, window }
				first, second, third := w.host(1, 0), w.host(2, 0), w.host(3, 0)
				first.start(t, newJob(t, "*/5 * * * *", hanging(), policy))
				untilNext(every)
				at := time.Now().UTC()
				time.Sleep(time.Second)
				second.diesBeforeItStarts()
				second.start(t, newJob(t, "*/5 * * * *", w.target(time.Second), policy))
				if c.shutdown {
					first.stop()
				} else {
					first.cut(true)
				}
				time.Sleep(time.Minute)
				if row := w.history()[0]; row.State != tick.Claimed || row.Reruns != 1 || row.Claimant.Host != "host-2" {
					t.Fatalf("before the third one came: %+v", row)
				}
				time.Sleep(c.later)
				third.start(t, newJob(t, "*/5 * * * *", w.target(time.Second), policy))
				time.Sleep(2 * time.Minute)
				row := w.history()[0]
				if !row.At.Equal(at) || row.Outcome != c.want || w.times(at) != c.runs || row.Reruns != 1 || !strings.Contains(row.Reason, c.reason) {
					t.Errorf("run again %d times, %+v; want %d, %s", w.times(at), row, c.runs, c.want)
				}
				// What the dead ones kept comes late, and changes nothing.
				first.cut(false)
				second.cut(false)
				time.Sleep(time.Minute)
				if late := w.history()[0]; late.Outcome != c.want || w.times(at) != c.runs {
					t.Errorf("after the dead ones came back: %+v", late)
				}
				if !c.shutdown {
					first.stop()
				}
				second.stop()
				third.stop()
			})
		})
	}
}

// The same of processes that serve nothing: one that stands by takes over from another one that did. Where
// nobody does, the next one that settles says how the tick ended.
// Holds: T3.
func TestStandingByForARerunThatNeverBegan(t *testing.T) {
	for _, standsBy := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			policy := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
			first, second, third := w.host(1, 0), w.host(2, 0), w.host(3, 0)
			untilNext(5 * time.Minute)
			at := time.Now().UTC()
			trigger := func(h *host, at time.Time, target run.Target) {
				_, _, _ = h.backend.Trigger(t.Context(), t.Context(), newJob(t, "*/5 * * * *", target, policy), at)
			}
			var all sync.WaitGroup
			all.Go(func() { trigger(first, at, hanging()) })
			time.Sleep(time.Second)
			second.diesBeforeItStarts()
			all.Go(func() { trigger(second, at, w.target(time.Second)) })
			time.Sleep(5 * time.Second)
			if standsBy {
				all.Go(func() { trigger(third, at, w.target(time.Second)) })
			}
			time.Sleep(4 * time.Minute) // the time to start is over
			first.cut(true)
			time.Sleep(6 * time.Minute)
			untilNext(5 * time.Minute)
			next := time.Now().UTC()
			trigger(w.host(4, 0), next, w.target(time.Second))
			want, runs := run.Crashed, 0
			if standsBy {
				want, runs = run.Succeeded, 1
			}
			rows := w.history()
			if row := rows[0]; !row.At.Equal(at) || row.Outcome != want || w.times(at) != runs || row.Reruns != 1 {
				t.Errorf("somebody stands by: %v; run again %d times, %+v", standsBy, w.times(at), row)
			}
			if last := rows[len(rows)-1]; !last.At.Equal(next) || last.Outcome != run.Succeeded {
				t.Errorf("the next one: %+v", last)
			}
			first.cut(false)
			second.cut(false)
			all.Wait()
		})
	}
}

// lastMoment is the store of a server that is told to stop while it begins something.
type lastMoment struct {
	tick.Store
	stop func()
}

func (s lastMoment) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	s.stop()
	return s.Store.Start(ctx, r)
}

// A tick whose start is recorded is carried out while its server drains, like what began before it.
func TestATickThatBeginsAsItsServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.ticks.Store = lastMoment{h.ticks.Store, func() { h.cancel() }}
		h.start(t, newJob(t, "* * * * *", w.target(2*time.Second), nil))
		<-h.done
		if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded {
			t.Errorf("%+v; want one that succeeded", rows)
		}
	})
}
