package scheduler_test

import (
	"fmt"
	"slices"
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

// leave has a process claim ticks of other jobs, start every second one, and die.
func (w *world) leave(t *testing.T, jobs ...string) {
	t.Helper()
	st, at := w.b.Store(), time.Now().UTC().Truncate(time.Second)
	hold := func() lease.Ref {
		t.Helper()
		r, err := st.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), TTL: lease.DefaultTTL,
			Holder: lease.Holder{ID: lease.NewNonce(), Host: "gone", Command: "dibs run"}}})
		if err != nil || r.Answers[0].Status != lease.OK {
			t.Fatal(r, err)
		}
		return r.Answers[0].Record.Ref()
	}
	ref := hold()
	for i, name := range jobs {
		if _, err := st.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: name, At: at, Lease: ref}}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		r := run.Record{ID: run.NewID(), Job: name, Tick: at, Owner: ref.Owner, Token: ref.Token}
		if _, err := st.Ticks.Start(t.Context(), []tick.StartRequest{{Run: r, Claim: ref, Lease: ref}}); err != nil {
			t.Fatal(err)
		}
	}
}

func names(app string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%sj%05d", app, i))
	}
	return all
}

// row is the only tick of a job.
func (w *world) only(t *testing.T, name string) tick.Tick {
	t.Helper()
	rows, err := w.b.Store().History.Ticks(t.Context(), history.Query{Job: name})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%s: %+v %v", name, rows, err)
	}
	return rows[0]
}

// Fault: the sweep read the 100 oldest unfinished ticks of the namespace, and passed over those that were not its own.
// An app that died with more of them kept every other from taking over from its dead.
// Holds: T15.
func TestOrphansOfADeadAppKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.leave(t, names("a-dead-app/", 2_000)...)
		a, b := w.host(1, 0), w.host(2, 0)
		mine := newJob(t, "*/10 * * * *", w.target(8*time.Second), func(p *job.Policy) { p.OnCrash = job.CrashRerun })
		a.start(t, mine)
		for len(w.ran()) == 0 {
			time.Sleep(time.Second)
		}
		a.cut(true)
		a.cancel()
		b.start(t, mine)
		time.Sleep(lease.DefaultTTL + 20*time.Second)
		if rows := w.history(); len(rows) != 1 || rows[0].Reruns != 1 || rows[0].Outcome != run.Succeeded {
			t.Errorf("a TTL and 20 s after the crash: %+v", rows)
		}
		a.cut(false)
		b.stop()
		<-a.done
	})
}

// An app without a server is settled by another app's server after a while, by the policy that is registered.
// Holds: T15.
func TestWhatBelongsToNobodyIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		st := w.b.Store()
		rerun := newJob(t, "0 3 * * *", w.target(0), func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, 2*time.Hour })
		gone := names("gone/", 300)
		since := time.Now().Add(-time.Hour)
		_, err := st.Ticks.SetJobs(t.Context(), []tick.JobRequest{
			{Name: gone[1], Definition: rerun.Spec.Definition(), Since: since}, // started, and to be run again by whoever comes in time
			{Name: gone[3], Definition: rerun.Spec.Definition(), Since: since}, {Name: gone[5], Definition: "unreadable", Since: since},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = st.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: gone[3], Remove: true}}); err != nil {
			t.Fatal(err)
		}
		keys := []string{"a-key-of-dibs-run", "another"}
		w.leave(t, slices.Concat(gone, keys, names("other/", 2))...)
		h, other := w.host(1, 0), w.host(2, 0)
		other.backend.Self.Command = scheduler.ServerCommand("other")
		other.backend.Book = tick.NewBook(other.ticks, other.backend.Keeper, other.backend.Self)
		other.Server = scheduler.NewServer(other.backend, "other")
		other.start(t) // which knows nothing of these jobs any more, and settles them itself
		h.start(t, newJob(t, "*/10 * * * *", w.target(0), nil))
		open := func(name string) bool { return w.only(t, name).State != tick.Closed }
		time.Sleep(9 * time.Minute)
		for _, name := range []string{gone[0], gone[2], gone[7], keys[0]} {
			if !open(name) {
				t.Errorf("%s was settled at once: %+v", name, w.only(t, name))
			}
		}
		time.Sleep(6 * time.Minute)
		for i, name := range slices.Concat(gone, keys) {
			got := w.only(t, name)
			switch {
			case name == gone[1]:
				if got.State != tick.Started {
					t.Errorf("%s, which is to be run again: %+v", name, got)
				}
			case i%2 == 0 && got.Outcome != run.Missed, i%2 == 1 && (got.Outcome != run.Crashed || !got.Inferred):
				t.Errorf("%s: %+v", name, got)
			}
		}
		time.Sleep(2 * time.Hour)
		if got := w.only(t, gone[1]); got.Outcome != run.Crashed {
			t.Errorf("%s, which nobody ran again: %+v", gone[1], got)
		}
		h.stop()
		other.stop()
	})
}

// An app whose server comes back finds its own ticks as it left them, and runs them again.
// Holds: T15.
func TestWhatIsNotAbandonedIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.Self.Command = scheduler.ServerCommand("neighbor")
		h.backend.Book = tick.NewBook(h.ticks, h.backend.Keeper, h.backend.Self)
		h.Server = scheduler.NewServer(h.backend, "neighbor")
		h.start(t)
		w.leave(t, "app/other", "app/j")
		time.Sleep(5 * time.Minute)
		back := w.host(2, 0)
		back.start(t, newJob(t, "0 3 * * *", w.target(0), func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, time.Hour }))
		time.Sleep(time.Minute)
		if got := w.only(t, "app/j"); got.Outcome != run.Succeeded || got.Reruns != 1 {
			t.Errorf("%+v", got)
		}
		back.stop()
		h.stop()
	})
}

// Rule T15: how long an app has had no server counts only as far as the server that sweeps has watched. One
// that could not watch for a while begins anew.
// Holds: T15.
func TestWhoCouldNotWatchBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.Self.Command = scheduler.ServerCommand("neighbor")
		h.backend.Book = tick.NewBook(h.ticks, h.backend.Keeper, h.backend.Self)
		h.Server = scheduler.NewServer(h.backend, "neighbor")
		h.start(t)
		w.leave(t, "app/first", "app/second")
		time.Sleep(5 * time.Minute) // the app is missed
		h.cut(true)
		time.Sleep(20 * time.Minute)
		w.leave(t, "app/third", "app/fourth") // it was there in the meantime, and has died again
		time.Sleep(time.Minute)
		h.cut(false)
		time.Sleep(8 * time.Minute)
		for _, name := range []string{"app/third", "app/fourth"} {
			if got := w.only(t, name); got.State == tick.Closed {
				t.Errorf("%s was settled at once: %+v", name, got)
			}
		}
		time.Sleep(10 * time.Minute)
		for _, name := range []string{"app/first", "app/third", "app/fourth"} {
			if got := w.only(t, name); got.State != tick.Closed {
				t.Errorf("%s was never settled: %+v", name, got)
			}
		}
		h.stop()
	})
}

// Each server notices that an app is served, whoever's turn it is to settle.
// Holds: T15.
func TestAnAppThatIsServedIsNoticedOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.Self.Command = scheduler.ServerCommand("neighbor")
		h.backend.Book = tick.NewBook(h.ticks, h.backend.Keeper, h.backend.Self)
		h.Server = scheduler.NewServer(h.backend, "neighbor")
		h.start(t)
		w.leave(t, "app/first", "app/second")
		time.Sleep(9 * time.Minute)
		giveBack := w.takesTurn(t, "neighbor")
		back := w.host(2, 0)
		back.start(t, newJob(t, "0 3 * * *", w.target(0), nil))
		time.Sleep(time.Minute)
		back.stop()
		w.leave(t, "app/third", "app/fourth")
		time.Sleep(time.Minute) // their lease has lapsed
		giveBack()
		time.Sleep(8 * time.Minute)
		for _, name := range []string{"app/third", "app/fourth"} {
			if got := w.only(t, name); got.State == tick.Closed {
				t.Errorf("%s was settled at once: %+v", name, got)
			}
		}
		h.stop()
	})
}

// takesTurn has another process hold the turn to sweep for an app until it gives it back.
func (w *world) takesTurn(t *testing.T, app string) (giveBack func()) {
	t.Helper()
	leases := w.b.Store().Leases
	r, err := leases.List(t.Context(), app+"@", true)
	if err != nil || len(r.Answers) != 1 {
		t.Fatalf("the turn of %s: %+v, %v", app, r, err)
	}
	want := lease.AcquireRequest{Key: r.Answers[0].Record.Key, TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}}
	for {
		if r, err = leases.Acquire(t.Context(), []lease.AcquireRequest{want}); err != nil {
			t.Fatal(err)
		}
		if r.Answers[0].Status == lease.OK {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ref, end, ended := r.Answers[0].Record.Ref(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(lease.DefaultTTL / 3):
			}
			if r, err := leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}}); err != nil || r.Answers[0].Status != lease.OK {
				t.Errorf("renew the turn: %+v, %v", r, err)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		if _, err := leases.Release(t.Context(), []lease.Ref{ref}); err != nil {
			t.Error(err)
		}
	}
}
