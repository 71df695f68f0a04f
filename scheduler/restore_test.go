package scheduler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// lastRun is the latest tick that was run.
func (w *world) lastRun() (last time.Time) {
	for at := range w.ran() {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// Rule T11: after a store has lost everything, its servers register their jobs again, and none of the ticks from
// before is run once more.
// Holds: T11.
func TestAStoreThatForgotAJobLearnsItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var hosts []*host
		for i := range 3 {
			h := w.host(uint64(i+1), 0)
			all := func(p *job.Policy) { p.CatchUp = job.CatchUpAll }
			often := newJob(t, "* * * * *", w.target(time.Second), all)
			rare := newJob(t, "0 3 * * *", w.target(time.Second), all)
			rare.Spec.Name = "rare" // none of its ticks tells the servers that it is gone
			h.start(t, often, rare)
			hosts = append(hosts, h)
		}
		time.Sleep(10 * time.Minute)
		w.b.Forget()
		lost := time.Now()
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"app/j", "app/rare"} {
			if k := w.job(name); k.Definition == "" || k.Generation != 1 {
				t.Errorf("%s is registered as %+v", name, k)
			}
		}
		if n := len(w.events("definition-restored")); n != 2 {
			t.Errorf("%d events say that a definition was restored; want 2", n)
		}
		time.Sleep(8 * time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		for at, n := range w.ran() {
			if n > 1 {
				t.Errorf("%s was run %d times", at, n)
			}
		}
		for at := lost.UTC().Truncate(time.Minute).Add(2 * time.Minute); at.Before(lost.Add(9 * time.Minute)); at = at.Add(time.Minute) {
			if w.times(at) != 1 {
				t.Errorf("%s after the loss was run %d times", at, w.times(at))
			}
		}
	})
}

func (w *world) job(name string) tick.Job {
	w.t.Helper()
	rows, err := w.b.Store().Ticks.Jobs(w.t.Context(), tick.JobQuery{Names: []string{name}})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(rows) == 0 {
		return tick.Job{}
	}
	return rows[0]
}

// Of two loads the latest wins after a loss too, also if the server with the older one has not heard of it, and
// restores first.
// Holds: T11.
func TestTheLatestLoadWinsAfterALoss(t *testing.T) {
	for name, first := range map[string]int{"the older restores first": 0, "the newer restores first": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				hosts := []*host{w.host(1, 0), w.host(2, 0)}
				hosts[0].start(t, newJob(t, "0 3 * * *", w.target(0), nil))
				time.Sleep(time.Minute)
				hosts[1].start(t, newJob(t, "*/7 * * * *", w.target(0), nil))
				late := hosts[1-first]
				late.cut(true)
				w.b.Forget()
				time.Sleep(time.Minute)
				if w.job("app/j").Definition == "" {
					t.Error("the server that is there did not restore its load")
				}
				late.cut(false)
				time.Sleep(30 * time.Minute)
				if last := w.lastRun(); time.Since(last) > 8*time.Minute || last.Minute()%7 != 0 {
					t.Errorf("the last tick that ran is %s; want one of the newer load", last)
				}
				for _, h := range hosts {
					h.stop()
				}
			})
		})
	}
}

// A load after the loss is newer than what servers remember.
// Holds: T11.
func TestALoadAfterALossIsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, fresh := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "*/2 * * * *", w.target(0), nil))
		time.Sleep(time.Minute)
		if err := old.Load(t.Context(), []*scheduler.Job{newJob(t, "* * * * *", w.target(0), nil)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		old.cut(true)
		w.b.Forget()
		time.Sleep(time.Second)
		fresh.start(t, newJob(t, "*/7 * * * *", w.target(0), nil))
		loaded := time.Now()
		time.Sleep(time.Second)
		old.cut(false)
		time.Sleep(30 * time.Minute)
		old.stop()
		fresh.stop()
		for at := range w.ran() {
			if at.After(loaded) && at.Minute()%7 != 0 {
				t.Errorf("%s is no tick of the latest load", at)
			}
		}
		if time.Since(w.lastRun()) > 8*time.Minute {
			t.Errorf("the last tick that ran is %s", w.lastRun())
		}
		if len(w.events("manifest-differs")) == 0 {
			t.Error("the other server does not say that it has another definition")
		}
	})
}

// A failover that lost a deploy: the store has the definition of before it, and is given the latest again. What was
// due before the deploy keeps the definition of its time.
// Holds: T11.
func TestAFailoverThatLostADeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "*/2 * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		before := w.job("app/j") // what a replica has that lags
		if err := h.Load(t.Context(), []*scheduler.Job{newJob(t, "* * * * *", w.target(0), nil)}); err != nil {
			t.Fatal(err)
		}
		deployed := w.job("app/j")
		time.Sleep(5 * time.Minute)
		w.b.Forget()
		if _, err := w.b.Store().Ticks.SetJobs(t.Context(), []tick.JobRequest{
			{Name: before.Name, Definition: before.Definition, Since: before.Since, Mark: before.Mark}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		now := w.job("app/j")
		if now.Definition != deployed.Definition || !now.Since.Equal(deployed.Since) {
			t.Errorf("it is registered as %+v; want %+v", now, deployed)
		}
		if time.Since(w.lastRun()) > 2*time.Minute {
			t.Errorf("the last tick that ran is %s", w.lastRun())
		}
		h.stop()
	})
}

// One row that is gone, as a server evicts it whose memory is full, comes back as after a loss of everything.
// Holds: T11.
func TestARowThatIsGoneComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		for range 3 {
			time.Sleep(10 * time.Minute)
			if time.Since(w.lastRun()) > 2*time.Minute {
				t.Errorf("at %s the last tick that ran is %s", time.Now(), w.lastRun())
			}
			w.b.ForgetJob("app/j")
		}
		time.Sleep(10 * time.Minute)
		h.stop()
		if n := len(w.events("definition-restored")); n != 3 {
			t.Errorf("%d events say that a definition was restored; want 3", n)
		}
		if n := len(w.events("manifest-differs")); n != 0 {
			t.Errorf("%d events say that the store has a newer load", n)
		}
	})
}

// A failover that lost a deploy whose server has ended since: the server with the definition before it, which the
// store has again, goes on with it.
// Holds: T11.
func TestAFailoverToWhatAServerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, fresh := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		before := w.job("app/j")
		fresh.start(t, newJob(t, "0 3 * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		fresh.stop()
		if time.Since(w.lastRun()) < 5*time.Minute {
			t.Fatal("the old load goes on beside the new one")
		}
		w.b.Forget()
		if _, err := w.b.Store().Ticks.SetJobs(t.Context(), []tick.JobRequest{
			{Name: before.Name, Definition: before.Definition, Since: before.Since, Mark: before.Mark}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if time.Since(w.lastRun()) > 2*time.Minute {
			t.Errorf("the last tick that ran is %s", w.lastRun())
		}
		old.stop()
	})
}

// A job that somebody removed is not brought back by a server that has it still.
// Holds: T11.
func TestWhatWasRemovedIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, fresh := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		other := newJob(t, "0 0 * * *", w.target(0), nil)
		other.Spec.Name = "other"
		fresh.start(t, other)
		removed := time.Now()
		time.Sleep(10 * time.Minute)
		w.b.Forget()
		time.Sleep(10 * time.Minute)
		old.stop()
		fresh.stop()
		if last := w.lastRun(); last.After(removed) {
			t.Errorf("%s of a job that was removed at %s is run", last, removed)
		}
		if k := w.job("app/j"); k.Definition != "" {
			t.Errorf("it is registered again: %+v", k)
		}
	})
}

// Rule T8: a tick whose run crashed is not run again during a pause, but after it.
// Holds: T3, T8.
func TestNoRerunInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rerun := func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, time.Hour }
		dying, other := w.host(1, 0), w.host(2, 0)
		dying.start(t, newJob(t, "0 * * * *", w.target(10*time.Minute), rerun))
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Minute)))
		other.start(t, newJob(t, "0 * * * *", w.target(time.Minute), rerun))
		at := time.Now().Truncate(time.Hour)
		dying.cut(true) // its run loses the lease
		other.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		time.Sleep(20 * time.Minute)
		if n := w.times(at.UTC()); n != 1 {
			t.Errorf("the tick has %d runs in the pause; want the first", n)
		}
		if rows := w.history(); !slices.ContainsFunc(rows, func(r tick.Tick) bool { return r.At.Equal(at) && r.Outcome != "" }) {
			t.Errorf("the crash is not recorded in the pause: %+v", rows)
		}
		other.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(10 * time.Minute)
		if n := w.times(at.UTC()); n != 2 {
			t.Errorf("the tick has %d runs after the pause; want 2", n)
		}
		dying.cut(false)
		dying.stop()
		other.stop()
	})
}
