package upgrade

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

// Where the parts of a fixture are that the suite goes on with.
const (
	heldKey   = lease.Key("deploy") // held when the fixture was made, by a process that is gone
	report    = "shop/report"
	mail      = "mail"     // the queue with tasks in every state
	closed    = "closed"   // a paused queue
	uniqueKey = "welcome"  // of a task that waits
	limitKey  = "printer"  // of a limit with an operator's word
	far       = 200 * 8766 // hours from the start of a fixture until what is to come in it comes
)

// filler writes a fixture. Its calls end the test if they fail.
type filler struct {
	*testing.T
	ctx context.Context
	s   *store.Store
}

// fill writes something of everything that a store can hold.
func fill(t *testing.T, s *store.Store) {
	f := &filler{t, t.Context(), s}
	f.leases()
	f.ticks()
	f.tasks()
}

func (f *filler) check(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// hold takes a lease.
func (f *filler) hold(key lease.Key) lease.Ref {
	f.Helper()
	h := lease.Holder{ID: lease.NewNonce(), Host: "web-1", PID: 42, Command: "php report.php"}
	r, err := f.s.Leases.Acquire(f.ctx, []lease.AcquireRequest{{Key: key, Holder: h, TTL: ttl}})
	f.check("acquire", err)
	if r.Answers[0].Status != lease.OK {
		f.Fatalf("acquire %q: %s", key, r.Answers[0].Status)
	}
	return r.Answers[0].Record.Ref()
}

func (f *filler) release(refs ...lease.Ref) {
	f.Helper()
	_, err := f.s.Leases.Release(f.ctx, refs)
	f.check("release", err)
}

func (f *filler) leases() {
	f.release(f.hold("released"))
	f.hold(heldKey)
	broken := f.hold("broken")
	_, err := f.s.Leases.Break(f.ctx, broken, lease.Broken{By: "ann", Why: "it hangs"})
	f.check("break", err)
}

// ticks writes jobs, and ticks and runs with every way to end, and without an end.
func (f *filler) ticks() {
	now, err := f.s.Now(f.ctx)
	f.check("now", err)
	hour := now.Truncate(time.Hour).Add(-10 * time.Hour)
	at := func(n int) time.Time { return hour.Add(time.Duration(n) * time.Hour) }
	set := func(r tick.JobRequest) {
		f.Helper()
		_, err := f.s.Ticks.SetJobs(f.ctx, []tick.JobRequest{r})
		f.check("register", err)
	}
	set(tick.JobRequest{Name: report, Definition: `{"schedules":["@daily"]}`, Since: at(-5)})
	set(tick.JobRequest{Name: report, Definition: `{"schedules":["@hourly"]}`, Since: at(-1)})
	set(tick.JobRequest{Name: "shop/paused", Definition: `{}`, Since: at(0)})
	set(tick.JobRequest{Name: "shop/gone", Definition: `{}`, Since: at(0)})
	set(tick.JobRequest{Name: "shop/gone", Remove: true})
	_, err = f.s.Ticks.Pause(f.ctx, tick.PauseRequest{Job: "shop/paused", By: "ann", Why: "stocktaking"})
	f.check("pause", err)

	server, overlap := f.hold(lease.Key("server/web-1")), f.hold(report)
	claim := func(n int, outcome run.Outcome, reason string) {
		f.Helper()
		a, err := f.s.Ticks.Claim(f.ctx, []tick.ClaimRequest{{Job: report, At: at(n), Lease: server, Claimant: lease.Holder{ID: server.Owner, Host: "web-1", PID: 42},
			Ahead: time.Hour, Outcome: outcome, Reason: reason}})
		f.check("claim", err)
		if a[0].Status != tick.Won {
			f.Fatalf("claim %d: %s", n, a[0].Status)
		}
	}
	start := func(n int) run.Record {
		f.Helper()
		claim(n, "", "")
		r := run.Record{ID: run.NewID(), Job: report, Tick: at(n), Owner: overlap.Owner, Token: overlap.Token, Host: "web-1", PID: 42, Command: "php report.php"}
		a, err := f.s.Ticks.Start(f.ctx, []tick.StartRequest{{Run: r, Claim: server, Lease: overlap}})
		f.check("start", err)
		if a[0].Status != tick.Won {
			f.Fatalf("start %d: %s", n, a[0].Status)
		}
		r.Started = a[0].Tick.Started
		return r
	}
	end := func(r run.Record, outcome run.Outcome, reason string) {
		f.Helper()
		r.Outcome, r.Reason, r.Ended = outcome, reason, r.Started.Add(time.Millisecond)
		r.Attempts = []run.Attempt{{N: 1, Started: r.Started, Ended: r.Ended}}
		a, err := f.s.Ticks.Close(f.ctx, []tick.CloseRequest{{Run: r, Claim: overlap}})
		f.check("close", err)
		if a[0].Status != tick.Won {
			f.Fatalf("close: %s", a[0].Status)
		}
	}
	good, bad := start(0), start(1)
	end(good, run.Succeeded, "")
	end(bad, run.Failed, "exit status 1")
	f.check("output", f.s.History.Output(f.ctx, good.ID, []byte("42 reports\n")))
	claim(2, run.Skipped, "overlap")
	_, err = f.s.Ticks.Settle(f.ctx, tick.SettleRequest{Job: report, From: at(-1).Add(-time.Microsecond), To: at(5), Rows: []tick.Tick{
		{Job: report, At: at(3), Through: at(5), Count: 3, State: tick.Closed, Outcome: run.Missed, Reason: "nobody was there"}}})
	f.check("settle", err)
	start(6)         // a run that nobody ends
	claim(7, "", "") // a claim that nobody starts
	f.check("append runs", f.s.History.AppendRuns(f.ctx, []run.Record{{ID: run.NewID(), Job: "shop/once", Owner: lease.NewNonce(), Token: 7, Host: "web-2",
		Outcome: run.Succeeded, Started: at(1), Ended: at(2), Cause: &run.Cause{By: "ann", Why: "a test"}}}))
	f.check("append events", f.s.History.Append(f.ctx, []history.Event{{Kind: "clock-step", Host: "web-1", Reason: "by 3 s"},
		{Kind: "lease-broken", Key: "broken", Job: report, Tick: at(0), RunID: good.ID, Host: "web-1", Reason: "by ann"}}))
}

// worker joins a worker, whose lease nobody renews.
func (f *filler) worker(host string) lease.Ref {
	f.Helper()
	ref := f.hold(lease.OnceKey())
	f.check("register", f.s.Queue.Register(f.ctx, driver.Process{Lease: ref, Host: host, PID: 7, Queues: []string{mail}, Slots: 10}))
	return ref
}

func (f *filler) enqueue(specs ...task.Spec) (ids []task.ID) {
	f.Helper()
	for i := range specs {
		specs[i].Queue = cmpOr(specs[i].Queue, mail)
		f.check("spec", specs[i].Check())
	}
	a, err := f.s.Queue.Enqueue(f.ctx, specs)
	f.check("enqueue", err)
	for _, e := range a {
		ids = append(ids, e.ID)
	}
	return ids
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// fetch gives a worker the only task of a kind that may be fetched.
func (f *filler) fetch(worker lease.Ref, kind string) driver.Ref {
	f.Helper()
	got, err := f.s.Queue.Fetch(f.ctx, driver.FetchRequest{Worker: worker, Queues: []string{mail}, Kinds: []string{kind}, Max: 1, Suspects: true, Crashers: true})
	f.check("fetch", err)
	if len(got.Tasks) != 1 {
		f.Fatalf("fetch of %s: %d tasks", kind, len(got.Tasks))
	}
	r := driver.Ref{ID: got.Tasks[0].ID, Token: got.Tasks[0].Token}
	a, err := f.s.Queue.Start(f.ctx, worker, []driver.Ref{r})
	f.check("start", err)
	if a[0] != driver.OK {
		f.Fatalf("start of %s: %v", kind, a[0])
	}
	return r
}

func (f *filler) finish(worker lease.Ref, r driver.Ref, c driver.Completion) {
	f.Helper()
	now, err := f.s.Now(f.ctx)
	f.check("now", err)
	c.Ref, c.Started, c.Ended = r, now, now
	a, err := f.s.Queue.Finish(f.ctx, worker, []driver.Completion{c})
	f.check("finish", err)
	if a[0] != driver.OK {
		f.Fatalf("finish: %v", a[0])
	}
}

// tasks writes tasks in every state.
func (f *filler) tasks() {
	w := f.worker("web-1")
	one := func(kind string) task.Spec {
		return task.Spec{Kind: kind, Args: []byte(fmt.Sprintf(`{"of":%q}`, kind))}
	}
	ended := func(kind string, c driver.Completion) {
		f.enqueue(one(kind))
		f.finish(w, f.fetch(w, kind), c)
	}
	ended("good", driver.Completion{Verdict: driver.Success})
	ended("bad", driver.Completion{Verdict: driver.Fail, Outcome: "failed", Error: "no such address", Reason: "attempts"})
	ended("again", driver.Completion{Verdict: driver.Retry, Outcome: "failed", Error: "timeout", Delay: far * time.Hour})
	ended("postponed", driver.Completion{Verdict: driver.Snooze, Outcome: "snoozed", Delay: far * time.Hour})
	ended("dropped", driver.Completion{Verdict: driver.Drop, Reason: "handler"})
	window := one("window")
	window.Unique = &task.Unique{Key: "w", Window: far * time.Hour}
	f.enqueue(window)
	f.finish(w, f.fetch(w, "window"), driver.Completion{Verdict: driver.Success})

	operated := f.enqueue(one("canceled"), one("discarded"), one("front"))
	for i, op := range []driver.Operation{driver.OpCancel, driver.OpDiscard, driver.OpPromote} {
		_, err := f.s.Tasks.Operate(f.ctx, driver.OpRequest{Operation: op, IDs: operated[i : i+1], By: "ann", Why: "a test"})
		f.check("operate", err)
	}
	poison := one("poison")
	poison.MaxCrashes = 1
	f.enqueue(poison, one("suspect"))
	for range 2 {
		dead := f.worker("web-2")
		f.fetch(dead, "poison")
		f.check("deregister", f.s.Queue.Deregister(f.ctx, dead))
	}
	dead := f.worker("web-2")
	f.fetch(dead, "suspect")
	f.check("deregister", f.s.Queue.Deregister(f.ctx, dead))

	later, expiring, urgent, unique := one("later"), one("expiring"), one("urgent"), one("unique")
	now, err := f.s.Now(f.ctx)
	f.check("now", err)
	later.RunAt, expiring.ExpiresAt, urgent.Priority = now.Add(far*time.Hour), now.Add(far*time.Hour), 9
	urgent.Tags, unique.Unique = []string{"vip"}, &task.Unique{Key: uniqueKey, Shared: true}
	f.enqueue(later, expiring, urgent, unique, one("plain"), one("plain"), one("rated"))
	shut := one("plain")
	shut.Queue = closed
	f.enqueue(shut)
	f.check("pause", f.s.Tasks.Pause(f.ctx, driver.Pause{Queue: closed, By: "ann", Why: "stocktaking"}))
	f.check("rates", f.s.Queue.Declare(f.ctx, map[string]task.Rate{"rated": {Count: 5, Per: time.Second}}))
	f.check("count", f.s.Queue.Count(f.ctx, []driver.Count{{Minute: now.Truncate(time.Minute), Queue: mail, Kind: "plain", Name: "enqueued", N: 2}}))

	// Under a limit: one runs, and two are blocked.
	limited := one("limited")
	limited.Limit = &task.Limit{Key: limitKey, Shared: true}
	f.enqueue(limited, limited, limited)
	f.fetch(w, "limited")
	_, err = f.s.Tasks.SetLimit(f.ctx, limited.Limit.Hash(limited.Kind), 1, "ann")
	f.check("set limit", err)
	limited.Kind, limited.Limit = "unsaid", &task.Limit{Key: "scanner", Max: 2}
	f.enqueue(limited)
	f.enqueue(one("running"))
	f.fetch(w, "running")

	seen := map[task.State]bool{}
	all, err := f.s.Tasks.Tasks(f.ctx, driver.Filter{Max: 1000})
	f.check("tasks", err)
	for _, x := range all {
		seen[x.State] = true
	}
	for _, s := range task.States {
		if !seen[s] {
			f.Errorf("no task is %s: there are %v", s, slices.Sorted(keysOf(seen)))
		}
	}
}

func keysOf(m map[task.State]bool) func(yield func(task.State) bool) {
	return func(yield func(task.State) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
