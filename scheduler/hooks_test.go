package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// ears hear what a fleet's hooks are told, and which host told it.
type ears struct {
	mu  sync.Mutex
	all []heard
}

type heard struct {
	scheduler.Happening
	host uint64
}

// of is the ear of one host.
type ear struct {
	*ears
	host uint64
}

func (e ear) Wants(string, job.HookEvent) bool { return true }

func (e ear) Tell(h scheduler.Happening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, heard{h, e.host})
}

// on are the happenings of an event.
func (e *ears) on(event job.HookEvent) (some []heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.all {
		if h.On == event {
			some = append(some, h)
		}
	}
	return some
}

// ended is how often the end of each tick was told, whatever it was, but for what amends another one. A
// range counts for each of its ticks; what this host could not claim is told as one, with gaps, in which
// others ran: of three or more it is not said which.
func (e *ears) ended(every time.Duration) map[time.Time]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := map[time.Time]int{}
	for _, h := range e.all {
		if h.On == job.OnStart || h.Amends != "" {
			continue
		}
		if h.Count == 2 {
			n[h.Tick]++
			n[h.Through]++
			continue
		}
		for i := range max(h.Count, 1) {
			n[h.Tick.Add(time.Duration(i)*every)]++
		}
	}
	return n
}

func (e *ears) String() (s string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.all {
		s += fmt.Sprintf("\n  host %d: %s %s ×%d %s %q run %s", h.host, h.On, h.Tick.Format(time.TimeOnly), max(h.Count, 1), h.Outcome, h.Reason, h.Run.ID)
	}
	return s
}

// listening are hosts whose hooks are heard.
func (w *world) listening(n int) (*ears, []*host) {
	e := &ears{}
	var hosts []*host
	for i := range uint64(n) {
		h := w.host(i+1, 0)
		h.backend.Hooks = ear{e, i + 1}
		hosts = append(hosts, h)
	}
	return e, hosts
}

// Rule T13: each event of a tick is told once in the fleet, and a lost race is told by nobody.
// Holds: promise 24, T13.
func TestHooksAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(3)
		odd := func(at time.Time) bool { return at.Unix()/10%2 == 1 }
		target := run.Func(func(_ context.Context, c run.Call) error {
			fmt.Fprintf(c.Output, "at %s", c.Run.Tick.Format(time.TimeOnly))
			time.Sleep(time.Second)
			if odd(c.Run.Tick) {
				return errors.New("no luck")
			}
			return nil
		})
		for _, h := range hosts {
			h.start(t, newJob(t, "@every 10s", target, nil))
		}
		time.Sleep(5 * time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		rows := w.history()
		if len(rows) < 29 {
			t.Fatalf("%d ticks", len(rows))
		}
		starts, ends := map[time.Time]int{}, e.ended(10*time.Second)
		for _, h := range e.on(job.OnStart) {
			starts[h.Tick]++
			select {
			case <-h.Over:
			default:
				t.Errorf("the run of %s is not over", h.Tick)
			}
		}
		for _, r := range rows {
			if starts[r.At] != 1 || ends[r.At] != 1 {
				t.Errorf("tick %s: %d starts and %d ends were told", r.At, starts[r.At], ends[r.At])
			}
		}
		for _, h := range append(e.on(job.OnSuccess), e.on(job.OnFailure)...) {
			if (h.On == job.OnFailure) != odd(h.Tick) || h.Run.ID == "" || string(h.Output) != "at "+h.Tick.Format(time.TimeOnly) || len(h.Run.Attempts) != 1 {
				t.Errorf("told %+v", h)
			}
		}
		if n := len(e.on(job.OnSkip)) + len(e.on(job.OnMiss)); n > 0 {
			t.Errorf("skips or misses were told:%s", e)
		}
	})
}

// Promise 11: contention triggers no failure hook, and what is skipped is told as that.
// Holds: promise 11.
func TestContentionIsNoFailureToHooks(t *testing.T) {
	for policy, want := range map[job.Concurrency][]job.HookEvent{
		job.Forbid: {job.OnSuccess, job.OnSkip}, job.Wait: {job.OnSuccess, job.OnSkip}, job.Replace: {job.OnStart}, job.Allow: {job.OnSuccess},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			e, hosts := w.listening(3)
			sleep := run.Func(func(ctx context.Context, _ run.Call) error {
				select {
				case <-time.After(45 * time.Second):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			for _, h := range hosts {
				h.start(t, newJob(t, "@every 20s", sleep, func(p *job.Policy) { p.Concurrency = policy }))
			}
			time.Sleep(5 * time.Minute)
			for _, on := range want {
				if len(e.on(on)) < 3 {
					t.Errorf("%s: %d times %s", policy, len(e.on(on)), on)
				}
			}
			skipped := map[time.Time]int{}
			for _, h := range e.on(job.OnSkip) {
				if skipped[h.Tick]++; h.HeldBy == "" || h.Outcome != run.Skipped || h.Reason == "" || skipped[h.Tick] > 1 {
					t.Errorf("%s: told %+v", policy, h)
				}
			}
			if n := len(e.on(job.OnFailure)) + len(e.on(job.OnMiss)); n > 0 {
				t.Errorf("%s: contention was told as a failure:%s", policy, e)
			}
			for _, h := range hosts {
				h.stop()
			}
		})
	}
}

// A run whose server died is concluded by another one, which tells of it: one of several that look
// at the same time.
// Holds: promise 24, T13.
func TestACrashIsToldElsewhere(t *testing.T) {
	for _, onCrash := range []job.OnCrash{job.CrashSkip, job.CrashRerun} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			e, hosts := w.listening(4)
			for _, h := range hosts {
				h.ticks.slow = 50 * time.Millisecond // so that all of them have looked before one concludes
				h.start(t, newJob(t, "*/10 * * * *", w.target(time.Minute), func(p *job.Policy) { p.OnCrash = onCrash }))
			}
			for len(e.on(job.OnStart)) == 0 {
				time.Sleep(time.Second)
			}
			start := e.on(job.OnStart)[0]
			hosts[start.host-1].cut(true) // for good
			time.Sleep(5 * time.Minute)
			failures := e.on(job.OnFailure)
			if len(failures) != 1 || failures[0].host == start.host || failures[0].Outcome != run.Crashed || failures[0].Run.ID != start.Run.ID || !failures[0].Tick.Equal(start.Tick) {
				t.Errorf("%s: told%s", onCrash, e)
			}
			switch again := e.on(job.OnSuccess); {
			case onCrash == job.CrashSkip && len(again) > 0:
				t.Errorf("%s: told%s", onCrash, e)
			case onCrash == job.CrashRerun && (len(again) != 1 || again[0].Run.ID == start.Run.ID || !again[0].Tick.Equal(start.Tick)):
				t.Errorf("%s: told%s", onCrash, e)
			}
			// What it reports late amends history, and is no news to hooks.
			hosts[start.host-1].cut(false)
			time.Sleep(time.Minute)
			if n := len(e.on(job.OnFailure)); n != 1 {
				t.Errorf("%s: told%s", onCrash, e)
			}
			if rows := w.history(); onCrash == job.CrashSkip && rows[0].Outcome != run.Lost {
				t.Errorf("%s: %+v", onCrash, rows[0])
			}
			for _, h := range hosts {
				h.stop()
			}
		})
	}
}

// A run that had succeeded, and could not say so before others concluded that it crashed, is told as the success
// that history has then. Where its tick was run again, its outcome is that run's, and there is no other news.
// Holds: promise 24, T13.
func TestALateSuccessIsTold(t *testing.T) {
	for _, c := range []struct {
		onCrash job.OnCrash
		ticked  bool
		want    int
	}{{job.CrashSkip, true, 1}, {job.CrashRerun, true, 0}, {job.CrashSkip, false, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			e, hosts := w.listening(3)
			policy := func(p *job.Policy) { p.OnCrash = c.onCrash }
			var manual sync.WaitGroup
			if c.ticked {
				for _, h := range hosts {
					h.start(t, newJob(t, "*/10 * * * *", w.target(5*time.Second), policy))
				}
			} else {
				manual.Go(func() {
					hosts[0].backend.TriggerNow(t.Context(), t.Context(), newJob(t, "*/10 * * * *", w.target(5*time.Second), policy), "", nil)
				})
			}
			for len(e.on(job.OnStart)) == 0 {
				time.Sleep(time.Second)
			}
			start := e.on(job.OnStart)[0]
			first := hosts[start.host-1]
			first.cut(true) // it ends well, within its lease, and cannot say so
			time.Sleep(time.Minute)
			if !c.ticked { // the next run of the job finds it dead, unless it has ended before it could look
				hosts[1].backend.TriggerNow(t.Context(), t.Context(), newJob(t, "*/10 * * * *", w.target(time.Second), policy), "", nil)
			}
			if f := e.on(job.OnFailure); len(f) != 1 || f[0].host == start.host || f[0].Run.ID != start.Run.ID {
				t.Fatalf("%+v: told%s", c, e)
			}
			first.cut(false)
			time.Sleep(time.Minute)
			if !c.ticked {
				manual.Wait()
				if err := first.backend.Deliver(t.Context()); err != nil || !first.backend.FlushHooks(time.Second) {
					t.Fatal(err)
				}
			}
			var late []heard
			for _, h := range e.on(job.OnSuccess) {
				if h.Run.ID == start.Run.ID {
					late = append(late, h)
				}
			}
			if len(late) != c.want || c.want == 1 && (late[0].host != start.host || late[0].Amends != run.Crashed || late[0].Outcome != run.Succeeded) {
				t.Errorf("%+v: told%s", c, e)
			}
			if c.ticked {
				if row := w.history()[0]; row.Outcome != run.Succeeded || row.Inferred {
					t.Errorf("%+v: %+v", c, row)
				}
				for _, h := range hosts {
					h.stop()
				}
			}
			if n := len(e.on(job.OnFailure)); n != 1 {
				t.Errorf("%+v: told%s", c, e)
			}
		})
	}
}

// An outcome that waited in the spool is told by whoever delivers it, if nobody else concluded.
// Holds: promise 24.
func TestASpooledOutcomeIsToldOnDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(1)
		hosts[0].start(t, newJob(t, "*/10 * * * *", w.target(time.Minute), nil))
		for len(e.on(job.OnStart)) == 0 {
			time.Sleep(time.Second)
		}
		hosts[0].cut(true)
		time.Sleep(time.Minute)
		if n := len(e.on(job.OnFailure)); n != 0 {
			t.Errorf("told before the store knew:%s", e)
		}
		hosts[0].cut(false)
		time.Sleep(time.Minute)
		if f := e.on(job.OnFailure); len(f) != 1 || f[0].Outcome != run.Lost {
			t.Errorf("told%s", e)
		}
		if rows := w.history(); rows[0].Outcome != run.Lost || rows[0].Inferred {
			t.Errorf("%+v", rows[0])
		}
		hosts[0].stop()
	})
}

// A range of missed ticks is told once, with how many they are; a pause is told by nobody.
// Holds: promise 24.
func TestMissedTicksAreToldAsARange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(3)
		short := func(p *job.Policy) { p.StartingDeadline = 10 * time.Second }
		hosts[0].start(t, newJob(t, "* * * * *", w.target(time.Second), short))
		time.Sleep(5 * time.Minute)
		hosts[0].stop()
		time.Sleep(10 * time.Minute)
		for _, h := range hosts[1:] {
			h.start(t, newJob(t, "* * * * *", w.target(time.Second), short))
		}
		time.Sleep(3 * time.Minute)
		hosts[1].pause(t, tick.PauseRequest{Job: "app/j", By: "me", Why: "x"})
		time.Sleep(5 * time.Minute)
		hosts[1].stop()
		hosts[2].stop()
		missed := 0
		for _, r := range w.history() {
			if r.Outcome == run.Missed {
				missed += max(r.Count, 1)
			}
		}
		told := e.on(job.OnMiss)
		if len(told) != 1 || told[0].Count != missed || missed < 9 || told[0].Through.Sub(told[0].Tick) != time.Duration(missed-1)*time.Minute {
			t.Errorf("%d were missed, told%s", missed, e)
		}
	})
}

// What a definition leaves behind above an unfinished tick is settled one by one, and told as one.
func TestWhatADefinitionLeavesIsToldAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(1)
		p := hosts[0].backend
		if err := hosts[0].Load(t.Context(), []*scheduler.Job{newJob(t, "@every 10s", w.target(time.Second), nil)}); err != nil {
			t.Fatal(err)
		}
		next := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
		time.Sleep(15 * time.Second)
		if a, err := p.Book.Claim(t.Context(), tick.Want{Job: "app/j", At: next}); err != nil || a.Status != tick.Won {
			t.Fatal(a, err)
		}
		time.Sleep(5 * time.Minute)
		known, err := p.Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Conclude(t.Context(), known[0]); err != nil || !p.FlushHooks(time.Second) {
			t.Fatal(err)
		}
		rows := w.history()
		if told := e.on(job.OnMiss); len(rows) != 31 || len(e.all) != 1 || told[0].Count != 30 || !told[0].Tick.Equal(rows[1].At) || !told[0].Through.Equal(rows[30].At) {
			t.Errorf("%d rows, told%s", len(rows), e)
		}
		_ = p.Book.Release(t.Context())
	})
}

// Single fires tell as servers do: of a crash that they conclude, and of the run that follows it.
func TestSingleFiresTell(t *testing.T) {
	for name, fire := range map[string]func(p *scheduler.Backend, j *scheduler.Job, at time.Time) scheduler.Result{
		"a tick that is run again": func(p *scheduler.Backend, j *scheduler.Job, at time.Time) scheduler.Result {
			res, _, err := p.Trigger(context.Background(), context.Background(), j, at)
			if err != nil && res.Run.ID == "" {
				res.Err = err
			}
			return res
		},
		"a run without a tick": func(p *scheduler.Backend, j *scheduler.Job, _ time.Time) scheduler.Result {
			return p.TriggerNow(context.Background(), context.Background(), j, "", nil)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			e, hosts := w.listening(2)
			j := newJob(t, "@every 10m", w.target(time.Minute), func(p *job.Policy) { p.OnCrash = job.CrashRerun })
			at, _ := j.Set().Next(time.Now())
			time.Sleep(time.Until(at) + time.Second)
			var dead sync.WaitGroup
			dead.Go(func() { fire(hosts[0].backend, j, at) })
			time.Sleep(5 * time.Second)
			hosts[0].cut(true)
			time.Sleep(30 * time.Second)
			if res := fire(hosts[1].backend, j, at); res.Err != nil || res.Outcome != run.Succeeded {
				t.Errorf("%s: %+v", name, res)
			}
			dead.Wait()
			starts, failures, successes := e.on(job.OnStart), e.on(job.OnFailure), e.on(job.OnSuccess)
			if len(starts) != 2 || len(failures) != 1 || len(successes) != 1 || failures[0].host != 2 || failures[0].Outcome != run.Crashed ||
				failures[0].Run.ID != starts[0].Run.ID || successes[0].Run.ID != starts[1].Run.ID {
				t.Errorf("%s: told%s", name, e)
			}
			hosts[0].cut(false)
			_ = hosts[0].backend.Deliver(t.Context())
			if n := len(e.on(job.OnFailure)); n != 1 {
				t.Errorf("%s: told%s", name, e)
			}
		})
	}
}

// othersConclude is a store in which another process concludes a crash just before it is taken over.
type othersConclude struct {
	tick.Store
	of *world
}

func (s othersConclude) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	row := s.of.history()[0]
	crash := run.Record{ID: row.RunID, Job: r.Job, Tick: r.At, Owner: r.From.Owner, Token: r.From.Token, Outcome: run.Crashed, Inferred: true, Reason: "concluded by another"}
	if a, err := s.Store.Close(ctx, []tick.CloseRequest{{Run: crash, Claim: r.From}}); err != nil || a[0].Status != tick.Won {
		s.of.t.Errorf("%+v, %v", a, err)
	}
	return s.Store.Take(ctx, r)
}

// A crash that another process concluded meanwhile is that one's to tell, although the tick is run again here.
func TestWhatOthersConcludedIsTheirsToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(2)
		again := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
		hosts[0].start(t, newJob(t, "*/10 * * * *", w.target(time.Minute), again))
		for len(e.on(job.OnStart)) == 0 {
			time.Sleep(time.Second)
		}
		hosts[0].cut(true)
		p := hosts[1].backend
		p.Ticks = othersConclude{p.Ticks, w}
		p.Book = tick.NewBook(p.Ticks, p.Keeper, p.Self)
		hosts[1].start(t, newJob(t, "*/10 * * * *", w.target(time.Minute), again))
		time.Sleep(5 * time.Minute)
		if len(e.on(job.OnFailure)) > 0 || len(e.on(job.OnSuccess)) != 1 {
			t.Errorf("told%s", e)
		}
		for _, h := range hosts {
			h.stop()
		}
	})
}

// othersSettle is a store in which, between a settling and its answer, another process has written the
// same rows.
type othersSettle struct{ tick.Store }

func (s othersSettle) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	r.Rows = slices.Clone(r.Rows)
	for i := range r.Rows {
		r.Rows[i].Ended = r.Rows[i].Ended.Add(time.Microsecond)
	}
	return s.Store.Settle(ctx, r)
}

// A settling may leave rows out (see tick.Store): those that another process writes then are its to tell of.
func TestWhatOthersSettledIsTheirsToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, hosts := w.listening(1)
		h := hosts[0]
		h.backend.Ticks = othersSettle{h.backend.Ticks}
		h.start(t, newJob(t, "@every 10s", w.target(time.Second), nil))
		h.stop()
		time.Sleep(10 * time.Minute)
		h.start(t, newJob(t, "@every 10s", w.target(time.Second), nil))
		time.Sleep(time.Minute)
		h.stop()
		if rows := w.history(); rows[0].Outcome != run.Missed || rows[0].Count < 10 {
			t.Fatalf("%+v", rows[0])
		}
		if len(e.on(job.OnMiss)) > 0 {
			t.Errorf("told%s", e)
		}
	})
}

// A tick's end is reported at most once, whatever is cut off and when; and as long as no process dies, each end is
// reported.
// Holds: promise 24.
func TestHooksAreToldOnceUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Seeds(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			rng := rand.New(rand.NewPCG(seed, 7))
			e, hosts := w.listening(3)
			for _, h := range hosts {
				h.start(t, newJob(t, "@every 10s", w.target(time.Duration(rng.Int64N(int64(12*time.Second)))), nil))
			}
			for range 40 {
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
				hosts[rng.IntN(3)].cut(rng.IntN(2) == 0)
			}
			for _, h := range hosts {
				h.cut(false)
			}
			time.Sleep(5 * time.Minute)
			told, seen := e.ended(10*time.Second), map[run.Outcome]int{}
			for _, r := range w.history() {
				for i := range max(r.Count, 1) {
					at := r.At.Add(time.Duration(i) * 10 * time.Second)
					if seen[r.Outcome]++; told[at] != 1 && r.State == tick.Closed {
						t.Errorf("seed %d: the end of %s (%s) was told %d times:%s", seed, at.Format(time.TimeOnly), r.Outcome, told[at], e)
						return
					}
				}
			}
			if seed == 0 {
				t.Logf("%v", seen)
			}
			for _, h := range hosts {
				h.stop()
			}
		})
	}
}
