package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A yard is a store with very many leases, ticks, jobs and runs. n of each are one's own, or finished, and ten
// times as many the neighbours': of other applications, some of which are gone and never ended their ticks.
type yard struct {
	testing.TB
	s      *store.Store // is filled through another one, whose scripts are not probed
	probe  *probe
	raw    *goredis.Client
	prefix string
	n      int
	begin  time.Time
	hold   lease.Ref
}

// No script does more than its bound, whatever is kept beside what it is about: counted in its commands, and in
// the values that these are given, and answer with; for each of as many items as a script takes at most.
// Holds: promise 26.
func TestEveryKeptStepIsBounded(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, ownServer(t).URL+"?read_timeout=1m") // on a busy machine
	c.Init, c.TTL = true, 24*time.Hour
	plain := open(t, c)
	y := &yard{TB: t, s: plain, raw: rawClient(t, c), prefix: "dibs:{" + c.Namespace + "}:", n: testsize.Of(1200, 100_000)}
	y.begin = storeNow(t, y.s).Truncate(time.Second)
	y.fill()
	y.s = open(t, c)
	y.probe = probes(y.s, 0)
	for _, f := range []func(){y.leases, y.ticks, y.settling, y.reading, y.processes, y.pruning} {
		f()
	}
}

func (y *yard) must(err error) {
	if err != nil {
		y.Helper()
		y.Fatal(err)
	}
}

// step does something that has to do with so many items, each of which may take so many commands, and 24 times
// as many values, and one of a script at most with maxBatch of them.
func (y *yard) step(what string, items, each int, do func()) {
	y.Helper()
	drain(y, y.raw, y.prefix)
	y.probe.told()
	do()
	var worst probed
	all := drain(y, y.raw, y.prefix)
	for _, r := range all {
		worst.Work, worst.Wide, worst.Calls = max(worst.Work, r.Work), max(worst.Wide, r.Wide), max(worst.Calls, r.Calls)
	}
	plain, most := y.probe.told(), min(items, maxBatch)*each+20
	y.Logf("%-50s %5d scripts, %6d commands, %7d values, %5d in one; %d in a plain command", what, len(all), worst.Calls, worst.Work, worst.Wide, plain)
	if wide := min(items, maxBatch) + 40; worst.Calls > most || worst.Work > 24*most || worst.Wide > 2*wide {
		y.Errorf("%s: one script had %d commands, %d values, and %d in one command; want %d, %d and %d at most",
			what, worst.Calls, worst.Work, worst.Wide, most, 24*most, 2*wide)
	}
	if plain > 2*min(items, 10_000)+20 {
		y.Errorf("%s: a command outside of scripts had %d values", what, plain)
	}
}

func many[T any](n int, of func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = of(i)
	}
	return all
}

// jobOf is one of many jobs of an application.
func jobOf(app string, i int) string { return fmt.Sprintf("%s/j%05d", app, i) }

func (y *yard) fill() {
	ctx := y.Context()
	y.hold = grantOf(y, y.s, "mine").Ref()
	rec := y.renew([]lease.Ref{y.hold}, 24*time.Hour)
	y.hold = rec[0].Record.Ref()
	y.acquire("others/", 5*y.n, true)
	y.release(y.acquire("others/", 5*y.n, false))
	y.acquire("own/", y.n, true)
	for _, app := range []string{"own", "gone", "other"} {
		_, err := y.s.Ticks.SetJobs(ctx, many(y.n/10, func(i int) tick.JobRequest {
			return tick.JobRequest{Name: jobOf(app, i), Definition: "{}", Since: y.begin.Add(-1000 * time.Hour)}
		}))
		y.must(err)
	}
	dead := grantOf(y, y.s, "dead").Ref()
	claims := func(app string, n int, outcome run.Outcome) []tick.ClaimRequest {
		return many(n, func(i int) tick.ClaimRequest {
			job := jobOf(app, i%max(y.n/10, 1))
			if app == "" {
				job = fmt.Sprint("a", i, "/j")
			}
			return tick.ClaimRequest{Job: job, At: y.old(i), Lease: dead, Outcome: outcome, Fill: true}
		})
	}
	_, err := y.s.Ticks.Claim(ctx, claims("gone", 5*y.n, "")) // never ended, and older than what may be pruned
	y.must(err)
	for _, outcome := range []run.Outcome{"", run.Missed} { // an application each
		_, err = y.s.Ticks.Claim(ctx, claims("", y.n, outcome))
		y.must(err)
	}
	_, err = y.s.Ticks.Claim(ctx, claims("other", 4*y.n, run.Missed)) // owed, for all that it knows
	y.must(err)
	y.release([]lease.Ref{dead})
	y.must(y.s.History.AppendTicks(ctx, many(y.n, func(i int) tick.Tick { // ranges that end late
		at := y.begin.Add(time.Duration(i) * time.Second)
		return tick.Tick{Job: "host/" + jobOf("h", i%10), At: at, Through: at.Add(time.Microsecond), Count: 2, State: tick.Closed, Outcome: run.Missed}
	})))
	for _, job := range []string{"other/j00000", "own/busy"} {
		y.must(y.s.History.AppendRuns(ctx, many(y.n, func(i int) run.Record {
			return run.Record{ID: fmt.Sprint(job, i), Job: job, Outcome: run.Succeeded, Started: y.old(i), Ended: y.old(i)}
		})))
		y.must(y.s.History.Append(ctx, many(y.n, func(i int) history.Event {
			return history.Event{Kind: "x", Job: job, RunID: fmt.Sprint(job, i), At: y.old(i)}
		})))
	}
}

// old is an instant long ago.
func (y *yard) old(i int) time.Time {
	return y.begin.Add(-900*time.Hour + time.Duration(i)*time.Second)
}

func (y *yard) acquire(prefix string, n int, keep bool) (refs []lease.Ref) {
	a, err := y.s.Leases.Acquire(y.Context(), many(n, func(i int) lease.AcquireRequest {
		q := request(lease.Key(fmt.Sprintf("%s%v%06d", prefix, keep, i)))
		q.TTL = 24 * time.Hour
		return q
	}))
	y.must(err)
	for _, x := range a.Answers {
		if x.Status != lease.OK {
			y.Fatalf("%+v", x)
		}
		refs = append(refs, x.Record.Ref())
	}
	return refs
}

func (y *yard) renew(refs []lease.Ref, ttl time.Duration) []lease.Answer {
	a, err := y.s.Leases.Renew(y.Context(), many(len(refs), func(i int) lease.RenewRequest { return lease.RenewRequest{Ref: refs[i], TTL: ttl} }))
	y.must(err)
	return a.Answers
}

func (y *yard) release(refs []lease.Ref) {
	_, err := y.s.Leases.Release(y.Context(), refs)
	y.must(err)
}

func (y *yard) leases() {
	ctx := y.Context()
	var refs []lease.Ref
	keys := many(y.n, func(i int) lease.Key { return lease.Key(fmt.Sprint("k", i)) })
	y.step("acquire many", y.n, 4, func() { refs = y.acquire("k", y.n, false) })
	y.step("acquire one", 1, 4, func() { y.acquire("one", 1, false) })
	y.step("renew many, the first time", y.n, 4, func() { y.renew(refs, time.Hour) })
	y.step("renew many", y.n, 3, func() { y.renew(refs, time.Hour) })
	y.step("read many", y.n, 2, func() { _, err := y.s.Leases.Read(ctx, keys); y.must(err) })
	y.step("trim many", y.n, 3, func() { y.must(y.s.Leases.Trim(ctx, keys)) })
	y.step("release many", y.n, 3, func() { y.release(refs) })
	y.step("list few", 1, 2, func() { _, err := y.s.Leases.List(ctx, "mine", false); y.must(err) })
	y.step("list all", y.n, 2, func() { _, err := y.s.Leases.List(ctx, "", true); y.must(err) })
	y.step("list what is held", y.n, 2, func() { _, err := y.s.Leases.List(ctx, "others/", false); y.must(err) })
}

func (y *yard) ticks() {
	ctx := y.Context()
	at := func(i int) time.Time { return y.begin.Add(-time.Duration(i) * time.Second) }
	reqs := many(y.n, func(i int) tick.ClaimRequest {
		return tick.ClaimRequest{Job: "own/busy", At: at(i), Lease: y.hold}
	})
	y.step("claim many", y.n, 12, func() { _, err := y.s.Ticks.Claim(ctx, reqs); y.must(err) })
	y.step("claim many once more", y.n, 12, func() { _, err := y.s.Ticks.Claim(ctx, reqs); y.must(err) })
	runs := many(y.n, func(i int) run.Record {
		return run.Record{ID: fmt.Sprint("r", i), Job: "own/busy", Tick: at(i), Owner: y.hold.Owner, Token: y.hold.Token}
	})
	y.step("start many", y.n, 12, func() {
		_, err := y.s.Ticks.Start(ctx, many(y.n, func(i int) tick.StartRequest {
			return tick.StartRequest{Run: runs[i], Claim: y.hold, Lease: y.hold}
		}))
		y.must(err)
	})
	y.step("close many", y.n, 14, func() {
		a, err := y.s.Ticks.Close(ctx, many(y.n, func(i int) tick.CloseRequest {
			r := runs[i]
			r.Outcome = run.Failed
			return tick.CloseRequest{Run: r, Claim: y.hold}
		}))
		y.must(err)
		if a[0].Status != tick.Won || a[y.n-1].Status != tick.Won {
			y.Errorf("close: %+v", a[0])
		}
	})
	y.step("a claim and its end", 1, 20, func() {
		_, err := y.s.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: "own/one", At: y.begin, Lease: y.hold}})
		y.must(err)
	})
	y.step("unfinished of an application", 10, 3, func() { _, err := y.s.Ticks.Orphans(ctx, tick.Look{Prefix: "own/"}); y.must(err) })
	y.step("unfinished of all", maxBatch, 3, func() { _, err := y.s.Ticks.Orphans(ctx, tick.Look{}); y.must(err) })
	y.step("owed of an application", 10, 3, func() { _, err := y.s.Ticks.Owed(ctx, tick.OwedLook{App: "own"}); y.must(err) })
	y.step("owed of another one", maxBatch, 3, func() { _, err := y.s.Ticks.Owed(ctx, tick.OwedLook{App: "other"}); y.must(err) })
	y.step("a tick is taken over", 1, 40, func() {
		_, err := y.s.Ticks.Take(ctx, tick.TakeRequest{Job: jobOf("gone", 0), At: y.old(0), Lease: y.hold})
		y.must(err)
	})
}

func (y *yard) settling() {
	ctx := y.Context()
	names := many(y.n, func(i int) string { return jobOf("new", i) })
	y.step("register many", y.n, 5, func() {
		_, err := y.s.Ticks.SetJobs(ctx, many(y.n, func(i int) tick.JobRequest {
			return tick.JobRequest{Name: names[i], Definition: "{}", Since: y.begin.Add(-500 * time.Hour)}
		}))
		y.must(err)
	})
	y.step("jobs by their names", y.n, 1, func() {
		all, err := y.s.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
		if y.must(err); len(all) != y.n {
			y.Errorf("%d jobs, want %d", len(all), y.n)
		}
	})
	y.step("jobs of an application", maxBatch, 2, func() { _, err := y.s.Ticks.Jobs(ctx, tick.JobQuery{Prefix: "new/"}); y.must(err) })
	y.step("pause and resume", 1, 10, func() {
		for _, resume := range []bool{false, true} {
			_, err := y.s.Ticks.Pause(ctx, tick.PauseRequest{Job: names[0], Resume: resume})
			y.must(err)
		}
	})
	all, err := y.s.Ticks.Jobs(ctx, tick.JobQuery{Names: names[:1]})
	y.must(err)
	mark, rows := all[0].Mark, min(max(y.n, 1200), 10_000)
	to := mark.Add(time.Duration(rows) * time.Minute)
	settled := many(rows, func(i int) tick.Tick {
		at := mark.Add(time.Duration(i) * time.Minute).Add(time.Second)
		t := tick.Tick{Job: names[0], At: at, Outcome: run.Missed, Inferred: true}
		if i%2 == 0 {
			t.Through, t.Count = at.Add(time.Second), 2
		}
		return t
	})
	y.step("settle very many", rows, 8, func() {
		a, err := y.s.Ticks.Settle(ctx, tick.SettleRequest{Job: names[0], From: mark, To: to, Rows: settled})
		if y.must(err); a.Status != tick.Won {
			y.Errorf("settle: %+v", a)
		}
	})
	if all, err = y.s.Ticks.Jobs(ctx, tick.JobQuery{Names: names[:1]}); err != nil || !all[0].Mark.Equal(to) {
		y.Errorf("the mark is %v, want %v; %v", all[0].Mark, to, err)
	}
	there, err := y.s.History.Ticks(ctx, history.Query{Job: names[0], Limit: 10_000})
	if y.must(err); len(there) != rows {
		y.Errorf("%d rows, want %d", len(there), rows)
	}
	y.step("split a range", 1, 40, func() {
		r := settled[0]
		a, err := y.s.Ticks.Split(ctx, tick.SplitRequest{Row: r, Parts: []tick.Tick{{At: r.At}, {At: r.Through}}})
		if y.must(err); a.Status != tick.Won {
			y.Errorf("split: %+v", a)
		}
	})
}

func (y *yard) reading() {
	ctx := y.Context()
	h := y.s.History
	for _, q := range []history.Query{{Job: "own/busy"}, {Job: "own/busy", Limit: 10_000}, {}, {From: y.old(0)}, {From: y.begin.Add(-time.Hour), Job: "own/busy"},
		{From: y.begin.Add(-800 * time.Hour), To: y.begin.Add(-799 * time.Hour)},
		{Job: "host/h/j00001", From: y.begin.Add(time.Second), To: y.begin.Add(2 * time.Second), Limit: 1000}} {
		items := max(q.Max(), maxBatch)
		y.step(fmt.Sprint("ticks of ", q.Job, " ", q.Max(), " from ", !q.From.IsZero()), items, 2, func() { _, err := h.Ticks(ctx, q); y.must(err) })
		y.step(fmt.Sprint("runs of ", q.Job, " ", q.Max()), items, 2, func() { _, err := h.Runs(ctx, q); y.must(err) })
		y.step(fmt.Sprint("events of ", q.Job, " ", q.Max()), items, 2, func() { _, err := h.Events(ctx, q); y.must(err) })
	}
	y.step("events of a run", 10, 2, func() { _, err := h.Events(ctx, history.Query{RunID: "own/busy1"}); y.must(err) })
	y.step("the latest of many jobs", y.n, 2, func() {
		_, err := h.Latest(ctx, many(y.n, func(i int) string { return jobOf("own", i) }), 100)
		y.must(err)
	})
	y.step("the latest ticks of many jobs", y.n, 2, func() {
		_, err := h.LatestTicks(ctx, many(y.n, func(i int) string { return jobOf("own", i) }), 100)
		y.must(err)
	})
}

// processes are a crowd, most of which have been silent for long.
func (y *yard) processes() {
	ctx := context.WithoutCancel(y.Context())
	n := 2*fleet.Crowd + 500
	for i := range n {
		id := lease.Nonce{1, byte(i >> 8), byte(i)}.String()
		at := y.begin.Add(-time.Duration(i) * time.Minute).UnixMicro()
		y.must(y.raw.HSet(ctx, y.prefix+"process", id, fleet.Process{ID: lease.NewNonce()}.Record()).Err())
		y.must(y.raw.ZAdd(ctx, y.prefix+"processes", goredis.Z{Score: float64(at), Member: id}).Err())
	}
	y.step("list processes", n, 2, func() { _, _, err := y.s.Fleet.Processes(ctx); y.must(err) })
	for i, left := range []int{n + 1 - fleet.Step, n + 1 - 2*fleet.Step} {
		y.step("report a process", fleet.Step, 2, func() { y.must(y.s.Fleet.Report(ctx, fleet.Process{ID: lease.Nonce{2}})) })
		if all, _, err := y.s.Fleet.Processes(ctx); err != nil || len(all) != left {
			y.Errorf("%d processes after report %d, %v; want %d", len(all), i+1, err, left)
		}
	}
}

// pruning comes to an end, and past what must stay: that keeps nothing else from being forgotten.
func (y *yard) pruning() {
	ctx := context.WithoutCancel(y.Context())
	y.step("outputs of a job", 2*history.Step, 2, func() { _, err := y.s.History.PruneOutputs(ctx, "own/busy", 1000); y.must(err) })
	last := tick.Tick{Job: "last/j", At: y.begin.Add(-200 * time.Hour), State: tick.Closed, Outcome: run.Missed}
	y.must(y.s.History.AppendTicks(ctx, []tick.Tick{last}))
	steps := 0
	for more := true; more; steps++ {
		if steps > y.n {
			y.Fatal("pruning never comes to an end")
		}
		do := func() {
			var err error
			_, more, err = y.s.History.Prune(ctx, y.begin.Add(-100*time.Hour))
			y.must(err)
		}
		if steps < 5 || steps%50 == 0 {
			y.step("prune", history.Step, 12, do)
		} else {
			do()
		}
	}
	if there, err := y.s.History.Ticks(ctx, history.Query{Job: last.Job}); err != nil || len(there) > 0 {
		y.Errorf("it is kept beside what is older and must stay: %v, %v", there, err)
	}
}
