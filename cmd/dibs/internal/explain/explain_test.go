package explain_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A world is a store in virtual time, which begins at midnight, and the hosts that use it.
type world struct {
	t *testing.T
	b *memory.Backend
}

// inWorld runs a test that begins ten seconds past an hour.
func inWorld(t *testing.T, test func(t *testing.T, w world)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Second)
		test(t, world{t, memory.New(memory.Options{})})
	})
}

// spool is a host's, in memory.
type spool struct {
	mu    sync.Mutex
	items []scheduler.Item
}

func (s *spool) Put(i scheduler.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, i)
	return nil
}

func (s *spool) Deliver(give func(scheduler.Item) error) error {
	for {
		s.mu.Lock()
		if len(s.items) == 0 {
			s.mu.Unlock()
			return nil
		}
		next := s.items[0]
		s.mu.Unlock()
		if err := give(next); err != nil {
			return err
		}
		s.mu.Lock()
		s.items = s.items[1:]
		s.mu.Unlock()
	}
}

// cutTicks fails with its link.
type cutTicks struct {
	tick.Store
	cut *atomic.Bool
}

func (c cutTicks) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	if c.cut.Load() {
		return nil, lease.ErrUnavailable
	}
	return c.Store.Claim(ctx, r)
}

func (c cutTicks) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	if c.cut.Load() {
		return nil, lease.ErrUnavailable
	}
	return c.Store.Close(ctx, r)
}

func (c cutTicks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	if c.cut.Load() {
		return tick.Found{}, lease.ErrUnavailable
	}
	return c.Store.Orphans(ctx, l)
}

// backend is that of a host, and how it is cut off.
func (w world) backend(host string) (*scheduler.Backend, func(bool)) {
	w.t.Helper()
	st := w.b.Store()
	link, cut := sim.NewLink(st.Leases, 1), new(atomic.Bool)
	k, err := lease.NewKeeper(lease.Options{Store: link, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(k.Close)
	ticks := cutTicks{st.Ticks, cut}
	self := lease.Holder{Host: host, PID: 7}
	p := &scheduler.Backend{Name: host, Keeper: k, Book: tick.NewBook(ticks, k, self), Ticks: ticks, History: st.History, Self: self,
		Spool: &spool{}, Log: slog.New(slog.DiscardHandler)}
	return p, func(c bool) { link.Cut(c); cut.Store(c) }
}

// serve starts a server; stop drains it.
func (w world) serve(host string, j *scheduler.Job) (cut func(bool), stop func()) {
	w.t.Helper()
	p, cut := w.backend(host)
	s := scheduler.NewServer(p, "app")
	if err := s.Load(w.t.Context(), []*scheduler.Job{j}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx, time.Second) }()
	return cut, func() { cancel(); <-done }
}

// works is a target that takes this long.
func works(d time.Duration) run.Target {
	return run.Func(func(ctx context.Context, _ run.Call) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func hourly(t *testing.T, target run.Target, change func(*job.Policy)) *scheduler.Job {
	t.Helper()
	j := &scheduler.Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{"0 * * * *"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
		Target: target}
	if change != nil {
		change(&j.Spec.Policy)
	}
	return j
}

// explain is what somebody is told who asks now, from a host of their own.
func (w world) explain(at string) explain.Account {
	w.t.Helper()
	a, err := w.ask("app/j", at)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w world) ask(name, at string) (explain.Account, error) {
	p, _ := w.backend("laptop")
	f, err := explain.Gather(w.t.Context(), p, name, at)
	return explain.Decide(f), err
}

func (w world) want(a explain.Account, outcome string) {
	w.t.Helper()
	if a.Outcome != outcome {
		w.t.Errorf("outcome %q, want %q: %+v", a.Outcome, outcome, a)
	}
}

// Holds: promise 10.
func TestATickThatRanNamesItsClaimantAndItsRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Minute), nil))
		defer stop()
		time.Sleep(time.Hour)
		a := w.explain("")
		w.want(a, "started")
		if !a.Alive || a.Claimant == nil || *a.Claimant != (explain.Process{Host: "web-1", PID: 7}) {
			t.Errorf("while it runs: %+v", a)
		}
		time.Sleep(2 * time.Minute)
		a = w.explain("01:00")
		w.want(a, "succeeded")
		if len(a.Runs) != 1 || a.Runs[0].Host != "web-1" || !a.Runs[0].Tick.Equal(a.Tick) || a.Started.IsZero() || a.Ended.Sub(a.Started) < time.Minute {
			t.Errorf("when it ran: %+v", a)
		}
	})
}

// Holds: promise 10.
func TestASkippedTickNamesTheHolderAndWhatBecameOfIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(90*time.Minute), nil))
		defer stop()
		time.Sleep(2 * time.Hour)
		first := w.explain("01:00")
		a := w.explain("02:00")
		w.want(a, "skipped")
		if a.Reason != run.ReasonOverlap || a.Blocker == nil || a.Blocker.RunID != first.Runs[0].ID || a.Blocker.Outcome != "" || a.Blocker.Inferred ||
			!strings.HasPrefix(a.Blocker.Holder, "web-1 pid 7") || a.Blocker.Since.Sub(first.Tick).Abs() > time.Second {
			t.Errorf("blocked by %+v, reason %s", a.Blocker, a.Reason)
		}
		time.Sleep(45 * time.Minute)
		if a = w.explain("02:00"); a.Blocker == nil || a.Blocker.Outcome != run.Succeeded || a.Blocker.Ended.IsZero() {
			t.Errorf("after the holder's end: %+v", a.Blocker)
		}
		// Without the event, the run that was at work tells.
		f := facts(t, w, "02:00")
		f.Events = nil
		if b := explain.Decide(f).Blocker; b == nil || !b.Inferred || b.RunID != first.Runs[0].ID {
			t.Errorf("without an event: %+v", b)
		}
	})
}

func facts(t *testing.T, w world, at string) explain.Facts {
	t.Helper()
	p, _ := w.backend("laptop")
	f, err := explain.Gather(t.Context(), p, "app/j", at)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Holds: promise 10.
func TestAReplacedTickNamesTheNewcomer(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(90*time.Minute), func(p *job.Policy) { p.Concurrency = job.Replace }))
		defer stop()
		time.Sleep(2*time.Hour + time.Minute)
		newcomer := w.explain("02:00")
		w.want(newcomer, "started")
		a := w.explain("01:00")
		w.want(a, "replaced")
		if a.Replaced == nil || !a.Replaced.Tick.Equal(newcomer.Tick) || a.Replaced.RunID != newcomer.Runs[0].ID || a.Replaced.Host != "web-1" {
			t.Errorf("replaced by %+v", a.Replaced)
		}
	})
}

// Holds: promise 10.
func TestARunThatCrashedAndItsRerunAreBothTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		again := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
		cut, stop := w.serve("web-1", hourly(t, works(2*time.Hour), again))
		defer stop()
		time.Sleep(time.Hour)
		cut(true)
		time.Sleep(time.Minute)
		a := w.explain("01:00")
		w.want(a, "started")
		if a.Alive {
			t.Error("a dead server's run is told to be alive")
		}
		_, stopOther := w.serve("web-2", hourly(t, works(time.Second), again))
		defer stopOther()
		time.Sleep(time.Minute)
		a = w.explain("01:00")
		w.want(a, "succeeded")
		if a.Reruns != 1 || len(a.Runs) != 2 || a.Runs[0].Outcome != run.Crashed || a.Runs[1].Host != "web-2" || len(a.Remarks) == 0 || a.Remarks[0].Event != "tick-taken-over" {
			t.Errorf("%d reruns, runs %+v, events %+v", a.Reruns, a.Runs, a.Remarks)
		}
	})
}

// Holds: promise 10.
func TestALostRunSaysWhatLostIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		cut, stop := w.serve("web-1", hourly(t, works(time.Hour/2), nil))
		defer stop()
		time.Sleep(time.Hour)
		cut(true)
		time.Sleep(time.Minute)
		cut(false)
		time.Sleep(time.Minute)
		a := w.explain("01:00")
		w.want(a, "lost")
		if !strings.Contains(a.Reason, "no answer from the store") {
			t.Errorf("reason %q", a.Reason)
		}
	})
}

// Ticks that nobody claimed show as missed, also before somebody settles them.
// Holds: promise 10, T4.
func TestATickThatNobodyClaimed(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		time.Sleep(time.Hour)
		stop()
		time.Sleep(59*time.Minute + 50*time.Second)
		w.want(w.explain("02:00"), explain.Due) // it begins
		time.Sleep(5 * time.Minute)
		w.want(w.explain("02:00"), explain.Due) // a claim may be on its way for a TTL
		time.Sleep(16 * time.Second)
		a := w.explain("02:00")
		w.want(a, "missed")
		if !a.Unsettled || len(a.Hosts) != 1 || a.Hosts[0].Host != "web-1" || a.Hosts[0].Before.IsZero() || !a.Hosts[0].After.IsZero() {
			t.Errorf("unsettled %v, hosts %+v", a.Unsettled, a.Hosts)
		}
		time.Sleep(2 * time.Hour)
		_, stop = w.serve("web-2", hourly(t, works(time.Second), nil))
		defer stop()
		time.Sleep(time.Minute)
		a = w.explain("03:00")
		w.want(a, "missed")
		if a.Unsettled || a.Count != 3 || a.From.Hour() != 2 || a.Through.Hour() != 4 || len(a.Hosts) != 0 {
			t.Errorf("settled: %+v", a)
		}
	})
}

// Rule T8: a tick that was run late says that it was caught up on, and one on time does not.
// Holds: T8.
func TestATickThatWasCaughtUpOnSaysSo(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		all := func(p *job.Policy) { p.CatchUp = job.CatchUpAll }
		_, stop := w.serve("web-1", hourly(t, works(time.Second), all))
		time.Sleep(time.Hour)
		stop()
		time.Sleep(90 * time.Minute)
		_, stop = w.serve("web-2", hourly(t, works(time.Second), all))
		defer stop()
		time.Sleep(time.Minute)
		for at, late := range map[string]bool{"01:00": false, "02:00": true} {
			a := w.explain(at)
			w.want(a, "succeeded")
			if a.CaughtUp() != late {
				t.Errorf("%s: caught up %t, want %t", at, a.CaughtUp(), late)
			}
		}
	})
}

// Holds: promise 10.
func TestAMissedTickTellsOfHostsThatWereUpAndOfManifestsThatDiffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		stop()
		p, _ := w.backend("web-2")
		time.Sleep(time.Hour)
		p.Fire(t.Context(), scheduler.Fire{Key: "other", Target: works(time.Second), Policy: job.DefaultPolicy(true), Limits: run.Limits{Attempts: 1}})
		p.Event(t.Context(), history.Event{Kind: "manifest-differs", Job: "app/j", Reason: "another definition"})
		time.Sleep(10 * time.Minute)
		a := w.explain("01:00")
		w.want(a, "missed")
		if len(a.Hosts) != 1 || a.Hosts[0].After.IsZero() || len(a.Differs) != 1 || a.Differs[0].Host != "web-2" {
			t.Errorf("hosts %+v, differs %+v", a.Hosts, a.Differs)
		}
	})
}

// Holds: promise 10.
func TestAnUnavailableTickNamesItsWitness(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		cut, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		defer stop()
		time.Sleep(30 * time.Minute)
		cut(true)
		time.Sleep(36 * time.Minute)
		cut(false)
		time.Sleep(time.Minute)
		a := w.explain("01:00")
		w.want(a, "unavailable")
		if !strings.Contains(a.Reason, "web-1") {
			t.Errorf("reason %q", a.Reason)
		}
	})
}

func TestATickThatWaitsForTheKeyNamesWhoHasIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		p, _ := w.backend("web-9")
		go p.Fire(t.Context(), scheduler.Fire{Key: "app/j", RunID: "r-1", Target: works(2 * time.Hour), Policy: job.DefaultPolicy(true), Limits: run.Limits{Attempts: 1}})
		_, stop := w.serve("web-1", hourly(t, works(time.Second), func(p *job.Policy) { p.Concurrency = job.Wait }))
		defer stop()
		time.Sleep(time.Hour + time.Minute)
		a := w.explain("01:00")
		w.want(a, "claimed")
		if !a.Alive || a.Blocker == nil || !strings.HasPrefix(a.Blocker.Holder, "web-9") || a.Blocker.RunID != "r-1" {
			t.Errorf("alive %v, blocked by %+v", a.Alive, a.Blocker)
		}
		time.Sleep(time.Hour)
		w.want(w.explain("01:00"), "succeeded")
	})
}

func TestInstantsThatAreNoTick(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		time.Sleep(2 * time.Hour)
		stop()
		day := time.Now().UTC().Format(time.DateOnly)
		a := w.explain(day + "T01:30")
		w.want(a, explain.NoTick)
		if a.Previous.Hour() != 1 || a.Next.Hour() != 2 {
			t.Errorf("between %s and %s", a.Previous, a.Next)
		}
		a = w.explain(day + "T03:00:00Z")
		w.want(a, explain.NotDue)
		// Before the registration there was nothing, and the neighbour is the first tick.
		a = w.explain("1999-12-31T00:00:00Z")
		w.want(a, explain.NoTick)
		if !a.Previous.IsZero() || a.Next.Hour() != 1 {
			t.Errorf("before the registration: between %s and %s", a.Previous, a.Next)
		}
		// One of several is not chosen in silence; of one that is gone nothing is made up.
		if _, err := w.ask("app/j", day); !errors.Is(err, explain.ErrAmbiguous) {
			t.Errorf("a whole day: %v", err)
		}
		if _, err := w.ask("app/j", "soon"); !errors.Is(err, explain.ErrWhen) {
			t.Errorf("soon: %v", err)
		}
		if _, err := w.ask("app/other", ""); !errors.Is(err, explain.ErrUnknown) {
			t.Errorf("another job: %v", err)
		}
	})
}

func TestARemovedJobHasNoTicksAfterItsRemoval(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		time.Sleep(time.Hour)
		stop()
		if _, err := w.b.Store().Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "app/j", Remove: true}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if a := w.explain(""); a.Tick.Hour() != 1 || a.Outcome != "succeeded" || a.Removed.IsZero() || !a.Next.IsZero() {
			t.Errorf("the latest: %+v", a)
		}
		w.want(w.explain("03:00"), explain.NoTick)
	})
}

func TestASettledTickWhoseRecordIsGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		defer stop()
		time.Sleep(3 * time.Hour)
		if _, _, err := w.b.Store().History.Prune(t.Context(), time.Now().Add(-90*time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.want(w.explain("01:00"), explain.Forgotten)
		w.want(w.explain("02:00"), "succeeded")
	})
}

// A change of schedule applies to ticks after its registration (rule T11); what an earlier one did
// is told from what was recorded.
// Holds: T11.
func TestATickOfAnEarlierDefinition(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		time.Sleep(time.Hour)
		stop()
		half := hourly(t, works(time.Second), nil)
		half.Spec.Schedules = []string{"30 * * * *"}
		_, stop = w.serve("web-1", half)
		defer stop()
		time.Sleep(time.Hour)
		a := w.explain("01:00")
		w.want(a, "succeeded")
		if a.Tick.Before(a.Since) || !a.Tick.Before(a.Until) {
			t.Errorf("tick %s, the definition since %s until %s", a.Tick, a.Since, a.Until)
		}
		w.want(w.explain("01:30"), "succeeded")
		w.want(w.explain("02:00"), explain.NoTick)
	})
}

// Rule T12: a tick from before the definition that a back-fill ran is one of that definition, and the
// runs that were forced beside it are told with it.
// Holds: T12.
func TestABackfilledTickSaysSo(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		time.Sleep(3 * time.Hour)
		j := hourly(t, works(time.Second), nil)
		_, stop := w.serve("web-1", j)
		time.Sleep(time.Minute)
		defer stop()
		p, _ := w.backend("laptop")
		fill := func(force bool) {
			t.Helper()
			from := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
			err := p.Backfill(t.Context(), t.Context(), j, scheduler.Backfill{ID: "b", From: from, To: from.Add(2 * time.Hour), Force: force, By: "ann"}, func(scheduler.Step, scheduler.Result) {})
			if err != nil {
				t.Fatal(err)
			}
		}
		fill(false)
		a := w.explain("01:00")
		w.want(a, "succeeded")
		if !a.Filled() || len(a.Again) != 0 {
			t.Errorf("filled %t, again %v", a.Filled(), a.Again)
		}
		fill(true)
		if a = w.explain("01:00"); len(a.Runs) != 1 || len(a.Again) != 1 || a.Again[0].Cause.By != "ann" {
			t.Errorf("runs %v, again %v", a.Runs, a.Again)
		}
	})
}

// Rule T8: a tick of a pause says whose, before and after somebody writes it down.
// Holds: promise 10, T8.
func TestATickOfAPauseSaysWhoPausedAndWhy(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
		stop()
		until := time.Now().Add(2 * time.Hour).Truncate(time.Hour)
		if _, err := w.b.Store().Ticks.Pause(t.Context(), tick.PauseRequest{Job: "app/j", By: "ann", Why: "migration", Until: until.Add(30 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		a := w.explain("01:00")
		w.want(a, "paused")
		if !a.Unsettled || a.Pause == nil || a.Pause.By != "ann" || !strings.Contains(a.Reason, "paused by ann") || !strings.Contains(a.Reason, "migration") {
			t.Errorf("before the settling: %+v", a)
		}
		time.Sleep(2*time.Hour + time.Minute)
		if a := w.explain("03:00"); a.Outcome != explain.Due || a.Pause != nil {
			t.Errorf("after the pause: %+v", a)
		}
		_, stop = w.serve("web-1", hourly(t, works(time.Second), nil))
		defer stop()
		time.Sleep(time.Minute)
		if a := w.explain("01:00"); a.Outcome != "paused" || a.Unsettled || !strings.Contains(a.Reason, "paused by ann") {
			t.Errorf("after the settling: %+v", a)
		}
	})
}

// What H stands for depends on the job's name, which the stored definition leaves out.
func TestAHashedScheduleIsThatOfTheJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		j := hourly(t, works(time.Second), nil)
		j.Spec.Schedules = []string{"H * * * *"}
		_, stop := w.serve("web-1", j)
		defer stop()
		time.Sleep(90 * time.Minute)
		w.want(w.explain(""), "succeeded")
	})
}

func TestAKeyWithoutAScheduleHasItsLastRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		p, _ := w.backend("web-1")
		for i := range 3 {
			p.Fire(t.Context(), scheduler.Fire{Key: "app/j", RunID: fmt.Sprint("r-", i), Target: works(time.Second), Policy: job.DefaultPolicy(true), Limits: run.Limits{Attempts: 1}})
			time.Sleep(time.Hour)
		}
		if a := w.explain(""); a.Outcome != explain.NoSchedule || len(a.Runs) != 1 || a.Runs[0].ID != "r-2" || !a.Tick.IsZero() {
			t.Errorf("the latest: %+v", a)
		}
		if a := w.explain("01:30"); len(a.Runs) != 1 || a.Runs[0].ID != "r-1" {
			t.Errorf("before 01:30: %+v", a.Runs)
		}
	})
}

// Of a job that is settled ahead of the store's clock it says so, for its ticks that are due and for those that were
// settled before their time.
func TestAJobThatIsSettledAheadOfTheClock(t *testing.T) {
	spec := job.Spec{App: "app", Name: "j", Schedules: []string{"0 * * * *"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)}
	now := time.Date(2026, 11, 21, 4, 0, 10, 0, time.UTC)
	known := tick.Job{Name: "app/j", Definition: spec.Definition(), Generation: 1, Since: now.Add(-time.Hour), Mark: now.Add(100 * time.Hour)}
	at := now.Truncate(time.Hour)
	for name, c := range map[string]struct {
		row     *tick.Tick
		outcome string
	}{
		"due":                     {nil, explain.Due},
		"settled before its time": {&tick.Tick{Job: "app/j", At: at, State: tick.Closed, Outcome: run.Missed}, string(run.Missed)},
	} {
		d, err := explain.Define(known)
		if err != nil {
			t.Fatal(err)
		}
		a := explain.Decide(explain.Facts{Name: "app/j", At: at, Now: now, TTL: 15 * time.Second, Definition: d, Row: c.row})
		if a.Outcome != c.outcome || !strings.Contains(a.Ahead, "100h0m0s ahead of the store's clock") {
			t.Errorf("%s: %s, %q", name, a.Outcome, a.Ahead)
		}
	}
	known.Mark = now
	d, err := explain.Define(known)
	if err != nil {
		t.Fatal(err)
	}
	if a := explain.Decide(explain.Facts{Name: "app/j", At: at, Now: now, TTL: 15 * time.Second, Definition: d}); a.Ahead != "" || a.Outcome != explain.Forgotten {
		t.Errorf("of a job that is not: %q, %s", a.Ahead, a.Outcome)
	}
}
