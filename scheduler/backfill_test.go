package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// backfill is a process that back-fills and does nothing else; it returns how many ticks it ran.
func (h *host) backfill(t *testing.T, accept context.Context, j *scheduler.Job, b scheduler.Backfill) (ran int, err error) {
	t.Helper()
	limited := b.Limit
	if b.ID == "" {
		b.ID = fmt.Sprint("b", h.backend.Self.PID)
	}
	b.By = h.backend.Self.Host
	err = h.backend.Backfill(accept, context.WithoutCancel(accept), j, b, func(_ scheduler.Step, r scheduler.Result) {
		if r.Run.ID != "" {
			ran++
		}
	})
	if errors.Is(err, scheduler.ErrLimit) && ran == limited {
		err = nil
	}
	return ran, err
}

// backlog counts what a back-fill would do, by what and why.
func (h *host) backlog(t *testing.T, j *scheduler.Job, b scheduler.Backfill) map[string]int {
	t.Helper()
	n := map[string]int{}
	err := h.backend.Backlog(t.Context(), j, b, func(s scheduler.Step) bool {
		what := string(s.Do)
		if s.Why != "" {
			what += ": " + s.Why
		}
		n[what]++
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eachRunOnce checks that the ticks of [from, to) were run exactly once each, and have one outcome.
func (w *world) eachRunOnce(every time.Duration, from, to time.Time) {
	w.t.Helper()
	rows := map[time.Time]tick.Tick{}
	for _, r := range w.history() {
		rows[r.At] = r
	}
	for at := from; at.Before(to); at = at.Add(every) {
		if n := w.times(at.UTC()); n != 1 {
			w.t.Errorf("tick %s was run %d times", at, n)
		}
		if r := rows[at.UTC()]; r.Outcome != run.Succeeded || !r.Through.IsZero() {
			w.t.Errorf("tick %s ended as %+v", at, r)
		}
	}
}

// Rule T12: two who fill the same range, a server that goes on beside them and one that catches up run
// each tick once: those that were missed, those that nobody has settled, and those before the job was
// known at all.
// Holds: T12.
func TestABackfillRunsEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 20*time.Minute }
		make := func() *scheduler.Job { return newJob(t, "* * * * *", w.target(time.Second), policy) }
		begun := time.Now().Truncate(time.Minute)
		first := w.host(1, 0)
		first.start(t, make())
		time.Sleep(10 * time.Minute)
		first.stop()
		time.Sleep(2 * time.Hour)
		second := w.host(2, 0)
		second.start(t, make())
		time.Sleep(2 * time.Minute)
		var (
			both sync.WaitGroup
			ran  [2]int
			from = begun.Add(-30 * time.Minute)
			to   = time.Now().Truncate(time.Minute)
		)
		for i := range ran {
			h := w.host(uint64(i+3), 0)
			both.Go(func() {
				var err error
				if ran[i], err = h.backfill(t, t.Context(), make(), scheduler.Backfill{From: from, To: to}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		second.stop()
		w.eachRunOnce(time.Minute, from, to)
		if ran[0] == 0 || ran[1] == 0 || ran[0]+ran[1] < 100 {
			t.Errorf("they ran %v ticks", ran)
		}
		if n, err := w.host(9, 0).backfill(t, t.Context(), make(), scheduler.Backfill{From: from, To: to}); n != 0 || err != nil {
			t.Errorf("a third one ran %d: %v", n, err)
		}
	})
}

// A look at a range that stands for thousands of ticks costs about as much as these, not each of them as
// much as all.
func TestABacklogOfALongRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		make := func() *scheduler.Job { return newJob(t, "@every 1s", w.target(0), nil) }
		h := w.host(1, 0)
		from := time.Now()
		h.start(t, make())
		time.Sleep(2 * time.Second)
		h.stop()
		time.Sleep(5000 * time.Second)
		h = w.host(2, 0)
		h.start(t, make())
		time.Sleep(time.Minute)
		h.stop()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := h.backlog(t, make(), scheduler.Backfill{From: from, To: from.Add(5000 * time.Second)})
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; got["fill"] < 4900 || mb > 100 {
			t.Errorf("it would %v, which took %d MB to find out", got, mb)
		}
	})
}

// A back-fill leaves out ticks that ran, were skipped or paused, unless it is asked for them; and a preview changes
// nothing.
// Holds: T12.
func TestWhatABackfillLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.UnlessBetween = []string{"00:50-01:00"} }
		make := func() *scheduler.Job { return newJob(t, "*/10 * * * *", w.target(15*time.Minute), policy) }
		h := w.host(1, 0)
		from := time.Now()
		h.start(t, make())
		time.Sleep(31 * time.Minute) // 00:10 runs, 00:20 is skipped, 00:30 runs
		h.stop()                     // and is canceled
		time.Sleep(40 * time.Minute) // 00:40 is missed, 00:50 outside of the windows, 01:00 and 01:10 missed
		h = w.host(2, 0)
		h.start(t, make())
		h.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		time.Sleep(20 * time.Minute) // 01:20 and 01:30 are of the pause
		b := scheduler.Backfill{From: from, To: time.Now()}
		j := make()
		whole := h.backlog(t, j, b)
		if len(whole) != 1 || whole["leave: paused by ann at 2000-01-01T01:11:11Z: a test"] != 9 {
			t.Errorf("in a pause it would %v", whole)
		}
		if n, err := h.backfill(t, t.Context(), j, b); n != 0 || err != nil {
			t.Errorf("in a pause it ran %d: %v", n, err)
		}
		h.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(6 * time.Minute) // until what was due is settled
		h.stop()
		for _, c := range []struct {
			change func(*scheduler.Backfill)
			want   map[string]int
		}{
			{func(*scheduler.Backfill) {}, map[string]int{"fill": 3, "leave: it has run": 2, "leave: it was skipped: overlap": 1,
				"leave: it was paused": 2, "leave: it lies outside the windows of its job": 1}},
			{func(b *scheduler.Backfill) { b.Skipped = true }, map[string]int{"fill": 4, "leave: it has run": 2,
				"leave: it was paused": 2, "leave: it lies outside the windows of its job": 1}},
			{func(b *scheduler.Backfill) { b.Force = true }, map[string]int{"fill": 3, "again": 6}},
		} {
			b := b
			c.change(&b)
			if got := h.backlog(t, j, b); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%+v would %v, want %v", b, got, c.want)
			}
		}
		before := fmt.Sprint(w.outcomes())
		b.Limit = 2
		for _, want := range []int{2, 1, 0} {
			if n, err := w.host(uint64(9+want), 0).backfill(t, t.Context(), j, b); n != want || err != nil {
				t.Errorf("it ran %d, want %d: %v", n, want, err)
			}
		}
		if got := w.outcomes(); got[run.Missed] != 0 || got[run.Paused] != 2 || got[run.Skipped] != 2 {
			t.Errorf("ticks were %s and are %v", before, got)
		}
		other := newJob(t, "*/5 * * * *", w.target(0), policy)
		if _, err := h.backfill(t, t.Context(), other, b); !errors.Is(err, scheduler.ErrOtherDefinition) {
			t.Errorf("another definition: %v", err)
		}
	})
}

// Force runs ticks once more beside their outcomes, which stay.
// Holds: T12.
func TestAForcedBackfillKeepsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		again := map[time.Time]int{}
		var keys []string
		target := run.Func(func(ctx context.Context, c run.Call) error {
			if c.Run.Tick.IsZero() {
				again[c.Run.Scheduled()]++
				keys = append(keys, c.IdempotencyKey)
				return errors.New("it fails the second time")
			}
			return w.target(time.Second).Attempt(ctx, c).Err
		})
		h := w.host(1, 0)
		from := time.Now()
		h.start(t, newJob(t, "* * * * *", target, nil))
		time.Sleep(5 * time.Minute)
		h.stop()
		to := time.Now()
		rows := fmt.Sprint(w.history())
		j := newJob(t, "* * * * *", target, nil)
		b := scheduler.Backfill{ID: "again", From: from, To: to, Force: true, Limit: 3, Why: "a test"}
		for _, want := range []int{3, 2, 0} {
			if n, err := w.host(uint64(10+want), 0).backfill(t, t.Context(), j, b); n != want || err != nil {
				t.Errorf("it ran %d, want %d: %v", n, want, err)
			}
		}
		if len(again) != 5 || len(keys) != 5 || keys[0] != "app/j@2000-01-01T00:01:00Z#again" {
			t.Errorf("%v were run again, as %q", again, keys)
		}
		if got := fmt.Sprint(w.history()); got != rows {
			t.Errorf("the ticks were\n%s\nand are\n%s", rows, got)
		}
		runs, err := h.backend.History.Runs(t.Context(), history.Query{Job: "app/j"})
		if err != nil {
			t.Fatal(err)
		}
		latest := runs[0] // the latest first
		if c := latest.Cause; len(runs) != 10 || c == nil || c.Backfill != "again" || c.By == "" || c.Why != "a test" || latest.Outcome != run.Failed {
			t.Errorf("%d runs, the latest %+v", len(runs), latest)
		}
		for i, r := range runs[1:] {
			if r.Token >= runs[i].Token {
				t.Errorf("token %d of a run is not above %d, an earlier one's", runs[i].Token, r.Token)
			}
		}
	})
}

// One that is ended finishes what it runs and leaves nothing behind that a second one could not fill.
// Holds: T12.
func TestAnEndedBackfillGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		from := time.Now().Add(-time.Hour).Truncate(time.Minute)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Second)
		h.stop()
		to := from.Add(time.Hour)
		j := newJob(t, "* * * * *", w.target(time.Minute), nil)
		for i, after := range []time.Duration{90 * time.Second, 10*time.Minute + time.Second, 0} {
			accept, cancel := context.WithCancelCause(t.Context())
			ended := errors.New("enough")
			if after > 0 {
				time.AfterFunc(after, func() { cancel(ended) })
			}
			n, err := w.host(uint64(i+2), 0).backfill(t, accept, j, scheduler.Backfill{From: from, To: to})
			if after > 0 && (!errors.Is(err, ended) || n != int(after/time.Minute)+1) || after == 0 && err != nil {
				t.Errorf("ended after %s it had run %d: %v", after, n, err)
			}
			cancel(nil)
		}
		w.eachRunOnce(time.Minute, from, to)
	})
}

// One that waits for the lease when it is ended gives its tick back; that of one that dies is found by
// the servers. Either can be filled by the next.
// Holds: T12.
func TestABackfillThatNeverStarted(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := w.host(1, 0)
			from := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
			to := from.Add(2 * time.Minute)
			h.start(t, newJob(t, "* * * * *", w.target(0), func(p *job.Policy) { p.Timeout = time.Hour }))
			busy := newJob(t, "* * * * *", run.Func(func(context.Context, run.Call) error { time.Sleep(5 * time.Minute); return nil }), nil)
			var manual sync.WaitGroup
			manual.Go(func() { h.backend.TriggerNow(t.Context(), t.Context(), busy, "", nil) })
			time.Sleep(time.Second)
			filler := w.host(2, 0)
			accept, cancel := context.WithCancel(t.Context())
			j := newJob(t, "* * * * *", w.target(time.Second), func(p *job.Policy) { p.Timeout = time.Hour })
			done := make(chan int, 1)
			go func() {
				n, _ := filler.backfill(t, accept, j, scheduler.Backfill{From: from, To: to})
				done <- n
			}()
			time.Sleep(30 * time.Second)
			if first := w.history()[0]; !first.At.Equal(from) || first.State != tick.Claimed {
				t.Errorf("it waits with %+v", first)
			}
			if filler.cut(dies); !dies {
				cancel()
			}
			time.Sleep(time.Minute)
			if first := w.history()[0]; first.Outcome != run.Missed || !first.Fillable() {
				t.Errorf("it left %+v", first)
			}
			cancel()
			if n := <-done; n != 0 {
				t.Errorf("it ran %d", n)
			}
			manual.Wait()
			if n, err := w.host(3, 0).backfill(t, t.Context(), j, scheduler.Backfill{From: from, To: to}); n != 2 || err != nil {
				t.Errorf("the next one ran %d: %v", n, err)
			}
			h.stop()
			w.eachRunOnce(time.Minute, from, to)
		})
	}
}

// Without its store it ends, instead of trying each tick in vain; nothing runs twice.
func TestABackfillWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		from := time.Now().Add(-time.Hour).Truncate(time.Minute)
		j := newJob(t, "* * * * *", w.target(10*time.Second), nil)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(time.Second)
		h.stop()
		b := scheduler.Backfill{From: from, To: from.Add(time.Hour)}
		filler := w.host(2, 0)
		time.AfterFunc(65*time.Second, func() { filler.cut(true) })
		begun := time.Now()
		n, err := filler.backfill(t, t.Context(), j, b)
		if n != 7 || err == nil || time.Since(begun) > 5*time.Minute {
			t.Errorf("it ran %d and ended after %s: %v", n, time.Since(begun), err)
		}
		time.Sleep(time.Minute)
		last := w.host(3, 0)
		last.start(t, newJob(t, "* * * * *", w.target(0), nil)) // somebody sees that one has crashed
		time.Sleep(30 * time.Second)
		last.stop()
		if _, err := w.host(4, 0).backfill(t, t.Context(), j, b); err != nil {
			t.Error(err)
		}
		for at := b.From; at.Before(b.To); at = at.Add(time.Minute) {
			if n := w.times(at.UTC()); n != 1 {
				t.Errorf("tick %s was run %d times", at, n)
			}
		}
		if n := w.outcomes(); n[run.Crashed]+n[run.Lost] != 1 {
			t.Errorf("outcomes are %v", n)
		}
	})
}

// A store that is away for a while ends no back-fill that looks or claims, what was claimed without an answer
// is found again, and whatever else the silence meets is told: no tick is left in silence, and each is begun at
// most once.
// Holds: T12.
func TestABackfillWaitsForItsStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]outage{
		"nothing is answered, for a second":            {away: time.Second, cut: true, most: true},
		"nothing is answered, for longer than a lease": {away: 40 * time.Second, cut: true, most: true},
		"the registration cannot be read":              {away: 40 * time.Second, deaf: "jobs", most: true},
		"the same, where ticks are run again":          {away: 40 * time.Second, deaf: "jobs", force: true, most: true},
		"claims are carried out unheard":               {away: 8 * time.Second, deaf: "claim", most: true},
		"and the lease that they are under is lost":    {away: 12 * time.Second, deaf: "last claim", leases: true, most: true},
		"starts are carried out unheard":               {away: 8 * time.Second, deaf: "start"},
	} {
		t.Run(name, func(t *testing.T) {
			whole := 0
			const from, step, cases = 100 * time.Second, 15 * time.Millisecond, 30 // round the end of the tenth tick's run
			for i := range cases {
				c.after = from + time.Duration(i)*step
				synctest.Test(t, func(t *testing.T) {
					if c.meetsBackfill(t) {
						whole++
					}
				})
			}
			if c.most && whole < cases*3/4 {
				t.Errorf("%d of %d went through", whole, cases)
			}
		})
	}
}

// An outage of a back-fill's store, or of a part of it.
type outage struct {
	after, away time.Duration
	cut, leases bool   // of all, or of the leases
	deaf        string // tickLink's
	force       bool   // the back-fill's
	most        bool   // most back-fills are not ended by it
}

// meetsBackfill says whether a back-fill ran all its ticks; if not, it has to say so, and no tick is run twice.
func (o outage) meetsBackfill(t *testing.T) (whole bool) {
	w := newWorld(t)
	h := w.host(1, 0)
	from := time.Now().Add(-time.Hour).Truncate(time.Minute)
	h.start(t, newJob(t, "* * * * *", w.target(0), nil))
	time.Sleep(time.Second)
	h.stop()
	const ticks = 20
	b := scheduler.Backfill{From: from, To: from.Add(ticks * time.Minute)}
	if o.force {
		if n, err := w.host(3, 0).backfill(t, t.Context(), newJob(t, "* * * * *", w.target(0), nil), b); n != ticks || err != nil {
			t.Fatal(n, err)
		}
		b.Force = true
	}
	filler := w.host(2, 0)
	set := func(on bool) {
		filler.ticks.mu.Lock()
		filler.ticks.cut, filler.ticks.deaf = on && o.cut, ""
		if on {
			filler.ticks.deaf = o.deaf
		}
		filler.ticks.mu.Unlock()
		filler.link.Cut(on && (o.cut || o.leases))
	}
	time.AfterFunc(o.after, func() { set(true) })
	time.AfterFunc(o.after+o.away, func() { set(false) })
	n, err := filler.backfill(t, t.Context(), newJob(t, "* * * * *", w.target(10*time.Second), nil), b)
	for at := b.From; at.Before(b.To); at = at.Add(time.Minute) {
		if n := w.times(at.UTC()); n > 1 {
			t.Errorf("tick %s was run %d times", at, n)
		}
	}
	whole = n == ticks && err == nil
	if !whole && !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("%+v: it ran %d of %d: %v; %v", o, n, ticks, err, w.outcomes())
	}
	return whole
}

// A back-fill leaves out ticks that are older than what history keeps, because they may have
// run, and ticks of an earlier definition of the job.
// Holds: T12.
func TestABackfillKnowsWhatItCannotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "0 * * * *", w.target(0), nil))
		time.Sleep(time.Minute)
		h.stop()
		from := time.Now()
		time.Sleep(10*time.Hour + 30*time.Minute)
		j := newJob(t, "0,20 * * * *", w.target(0), nil)
		h = w.host(2, 0)
		h.start(t, j) // the ten that were missed are a range of the old schedule
		time.Sleep(time.Minute)
		h.stop()
		got := h.backlog(t, j, scheduler.Backfill{From: from, To: from.Add(10*time.Hour + 25*time.Minute)})
		// 00:20 and 10:20 lie outside of it.
		want := map[string]int{"fill": 2, "leave: it belongs to an earlier definition of the job": 19}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("it would %v, want %v; the rows are %+v", got, want, w.history())
		}
		time.Sleep(100 * 24 * time.Hour)
		got = h.backlog(t, j, scheduler.Backfill{From: from, To: from.Add(25 * time.Minute)})
		if want := map[string]int{"leave: it is older than what history keeps": 1}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("100 days later it would %v, want %v", got, want)
		}
	})
}
