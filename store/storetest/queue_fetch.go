package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

var fetchPromises = []promise{
	{"tasks come in order: front, priority, id", fetchOrder},
	{"queues come in the order given", fetchQueues},
	{"unknown kinds are left for who knows them", fetchKinds},
	{"a task is fetched no sooner than its instant", fetchDue},
	{"a fetch tells when the next task becomes due", fetchNextDue},
	// Holds: promise 21.
	{"an expired task is discarded and never given", fetchExpired},
	{"what has expired hides nothing behind it", fetchBehindExpired},
	{"a fetch gives at most as many as are asked for", fetchMax},
	{"a fetch past its not_after, or without a live lease, gives nothing", fetchRefused},
	{"no two workers get the same task", fetchOnce},
	{"tokens of a task only grow", taskTokens},
	{"rates bound how many of a kind are fetched", fetchRates},
	{"what waits for its rate holds up nobody behind it", fetchBehindRate},
}

func fetchOrder(w *world) {
	worker := w.worker(w.s)
	of := func(priority int) task.Spec {
		s := some()
		s.Priority = priority
		s.Kind = fmt.Sprintf("k%d", priority&1)
		return s
	}
	all := w.add(of(0), of(5), of(-9), of(0), of(9), of(5), of(0))
	w.acted(driver.OpPromote, all[2], driver.Done)
	w.acted(driver.OpPromote, all[6], driver.Done)
	want := []task.ID{all[6], all[2], all[4], all[1], all[5], all[0], all[3]}
	w.fetches("the first", worker, 1, want[0])
	w.fetches("the next two", worker, 2, want[1:3]...)
	got := w.fetches("the others", worker, 10, want[3:]...)
	for _, f := range []int{2, 0} {
		w.done(worker, got[f].Ref, driver.Return)
	}
	w.fetches("those handed back", worker, 10, want[3], want[5])
}

func fetchQueues(w *world) {
	worker := w.worker(w.s)
	in := func(q string, priority int) task.ID {
		return w.add1(task.Spec{Queue: q, Kind: "k", Priority: priority})
	}
	a1, b1, a2, b2, c := in("a", 0), in("b", 9), in("a", 0), in("b", 0), in("c", 9)
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"b", "a"}})
	w.order("Fetch of b, then a", ids(got.Tasks), []task.ID{b1, b2, a1, a2})
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"none"}})
	equal(w, "tasks of a queue that nobody named", len(got.Tasks), 0)
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"none", "c"}, Max: 1})
	w.order("Fetch of c", ids(got.Tasks), []task.ID{c})
}

func fetchKinds(w *world) {
	worker := w.worker(w.s)
	of := func(kind string) task.Spec { return task.Spec{Queue: "q", Kind: kind, Priority: len(kind)} }
	all := w.add(of("a"), of("unknown"), of("b"), of("a"), of("unknown"))
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Kinds: []string{"b", "a"}})
	w.order("Fetch of kinds a and b", ids(got.Tasks), []task.ID{all[0], all[2], all[3]})
	equal(w, "the state of what is left", w.task(all[1]).State, task.Available)
	w.fetches("whoever knows any kind", worker, 10, all[1], all[4])
}

func fetchDue(w *world) {
	worker, now := w.worker(w.s), w.now(w.s)
	far, past, near, delayed, both := some(), some(), some(), some(), some()
	far.RunAt = now.Add(time.Hour)
	past.RunAt = now.Add(-time.Hour)
	near.RunAt = now.Add(50 * time.Millisecond)
	delayed.Delay = 80 * time.Millisecond
	both.RunAt, both.Delay = now.Add(-time.Hour), time.Hour+110*time.Millisecond
	answers := w.enqueue(w.s, far, past, near, delayed, both)
	equal(w, "state of one for later", answers[0].State, task.Scheduled)
	equal(w, "state of one of the past", answers[1].State, task.Available)
	t := w.task(answers[0].ID)
	sameTime(w, "run at", t.RunAt, far.RunAt)
	sameTime(w, "run at of one with a delay", w.task(answers[4].ID).RunAt, both.RunAt.Add(both.Delay))
	left := map[task.ID]bool{}
	for _, a := range answers[1:] {
		left[a.ID] = true
	}
	for len(left) > 0 && !w.Failed() {
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker})
		for _, t := range f.Tasks {
			if !left[t.ID] || t.RunAt.After(f.Now) {
				w.Errorf("task %d, due at %v, was given at %v", t.ID, t.RunAt, f.Now)
			}
			delete(left, t.ID)
		}
		if w.now(w.s).After(now.Add(10 * time.Second)) {
			w.Fatalf("tasks %v became due and were not given", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	equal(w, "the state of one for later", w.task(answers[0].ID).State, task.Scheduled)
}

func fetchNextDue(w *world) {
	worker, now := w.worker(w.s), w.now(w.s)
	next := func() time.Time {
		w.Helper()
		return w.fetchWith(w.s, driver.FetchRequest{Worker: worker}).NextDue
	}
	equal(w, "where nothing waits for its instant", next().IsZero(), true)
	at := func(q, kind string, d time.Duration) task.ID {
		return w.add1(task.Spec{Queue: q, Kind: kind, RunAt: now.Add(d)})
	}
	at("q", "k", 2*time.Hour)
	sameTime(w, "of one", next(), now.Add(2*time.Hour))
	at("q", "b", time.Hour)
	for i := range 5 {
		at("q", fmt.Sprint("c", i), 3*time.Hour)
	}
	at("elsewhere", "k", time.Minute)
	sameTime(w, "of several kinds", next(), now.Add(time.Hour))
	id := w.add1(some())
	c := w.ended(w.fetch1(worker, id).Ref, driver.Retry)
	c.Delay = 30 * time.Minute
	before := w.now(w.s)
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	between(w, "of a retry", before.Add(c.Delay), next(), w.now(w.s).Add(c.Delay))
}

// However many have expired, the first fetch finds what stands behind them.
func fetchBehindExpired(w *world) {
	worker := w.worker(w.s)
	for _, s := range []task.Spec{some(), limited("l", 1)} {
		soon, expires := make([]task.Spec, 300), w.now(w.s).Add(100*time.Millisecond)
		for i := range soon {
			soon[i] = s
			soon[i].ExpiresAt = expires
		}
		w.add(soon...)
		id := w.add1(s)
		w.until(expires)
		w.fetches("behind the expired", worker, 1, id)
	}
}

func fetchExpired(w *world) {
	worker, now := w.worker(w.s), w.now(w.s)
	soon, later := some(), some()
	soon.ExpiresAt, later.ExpiresAt = now.Add(50*time.Millisecond), now.Add(time.Hour)
	waiting := soon
	waiting.RunAt = now.Add(20 * time.Millisecond)
	all := w.add(soon, later, waiting)
	r := w.fetchedBefore(worker)
	w.until(soon.ExpiresAt)
	w.until(r.ExpiresAt)
	got := w.fetches("Fetch after expiry", worker, 10, all[1])
	w.maintain()
	w.state("an expired one", all[0], task.Discarded, task.ReasonExpired)
	w.state("one that expired before anybody found it due", all[2], task.Discarded, task.ReasonExpired)
	between(w, "when it ended", soon.ExpiresAt, w.task(all[0]).Ended, w.now(w.s))
	equal(w, "attempts of an expired one", w.task(all[0]).Attempts, 0)
	w.state("one that was running", r.ID, task.Running, "")
	w.done(worker, r.Ref, driver.Success)
	w.done(worker, got[0].Ref, driver.Success)
}

// fetchedBefore is a task that was fetched before it expired, however slow the machine is.
func (w *world) fetchedBefore(worker lease.Ref) driver.Fetched {
	w.Helper()
	for d := 100 * time.Millisecond; d < time.Minute; d *= 3 {
		w.add1(task.Spec{Queue: "run", Kind: "k", ExpiresAt: w.now(w.s).Add(d)})
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"run"}}).Tasks
		if len(got) == 1 {
			return got[0]
		}
	}
	w.Fatal("no task was given before it expired")
	return driver.Fetched{}
}

func fetchMax(w *world) {
	worker := w.worker(w.s)
	specs := make([]task.Spec, 250)
	for i := range specs {
		specs[i] = some()
	}
	all := w.add(specs...)
	var got []task.ID
	for _, n := range []int{1, 7, 100, 1000} {
		part := w.fetch(worker, n)
		if len(part) > n {
			w.Errorf("Fetch of %d: %d tasks", n, len(part))
		}
		got = append(got, ids(part)...)
	}
	w.order("all of them", got, all)
	asked, err := w.s.Queue.Running(w.ctx, worker, false)
	w.check("Mine", err)
	equal(w, "tasks of the worker", len(asked), len(all))
}

func fetchRefused(w *world) {
	id := w.add1(some())
	refused := func(what string, r driver.FetchRequest, late, gone bool) {
		w.Helper()
		f := w.fetchWith(w.s, r)
		equal(w, what+": tasks", len(f.Tasks), 0)
		equal(w, what+": late", f.Late, late)
		equal(w, what+": gone", f.Gone, gone)
		w.state(what, id, task.Available, "")
	}
	worker := w.worker(w.s)
	refused("past its not_after", driver.FetchRequest{Worker: worker, NotAfter: w.now(w.s).Add(-time.Millisecond)}, true, false)
	lapsed := w.worker(w.s)
	w.lapse(w.s, lapsed)
	refused("under a lapsed lease", driver.FetchRequest{Worker: lapsed}, false, true)
	released := w.worker(w.s)
	w.release(w.s, released)
	refused("under a released lease", driver.FetchRequest{Worker: released}, false, true)
	other := worker
	other.Token++
	refused("under a lease of another token", driver.FetchRequest{Worker: other}, false, true)
	refused("under a lease that never was", driver.FetchRequest{Worker: lease.Ref{Key: "none", Owner: lease.NewNonce(), Token: 1}}, false, true)
	f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, NotAfter: w.now(w.s).Add(time.Hour)})
	w.order("before its not_after", ids(f.Tasks), []task.ID{id})
}

func fetchOnce(w *world) {
	const workers, tasks = 8, 400
	specs := make([]task.Spec, tasks)
	for i := range specs {
		specs[i] = some()
		specs[i].Priority = i % 5
	}
	w.add(specs...)
	processes := []*store.Store{w.s, w.process(), w.process()}
	refs := make([]lease.Ref, workers)
	for i := range refs {
		refs[i] = w.worker(processes[i%3])
	}
	var mu sync.Mutex
	seen := map[task.ID]int{}
	together(workers, func(i int) {
		for empty := 0; empty < 3; {
			f, err := processes[i%3].Queue.Fetch(w.ctx, driver.FetchRequest{Worker: refs[i], Queues: []string{"q"}, Max: 7 + i})
			if err != nil || f.Gone || f.Late {
				w.Errorf("Fetch: %+v, %v", f, err)
				return
			}
			if len(f.Tasks) == 0 {
				empty++
			}
			mu.Lock()
			for _, t := range f.Tasks {
				seen[t.ID]++
			}
			mu.Unlock()
		}
	})
	for id, n := range seen {
		if n != 1 {
			w.Errorf("task %d was given %d times", id, n)
		}
	}
	equal(w, "tasks that were given", len(seen), tasks)
}

func taskTokens(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	var last lease.Token
	for i := range 20 {
		before := w.now(w.s)
		f := w.fetch1(worker, id)
		if f.Token <= last || f.Token < lease.Token(before.UnixMicro()) || f.Token >= 1<<53 {
			w.Errorf("fetch %d: token %d after %d at %d µs", i, f.Token, last, before.UnixMicro())
		}
		equal(w, "the token that Task tells", w.task(id).Token, f.Token)
		last = f.Token
		if i%4 == 3 { // also when another worker takes it over
			w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
			worker = w.worker(w.s)
			continue
		}
		w.done(worker, f.Ref, []driver.Verdict{driver.Return, driver.Retry, driver.Snooze}[i%4])
	}
}

func fetchRates(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for range 6 {
		specs = append(specs, some(), task.Spec{Queue: "q", Kind: "free"})
	}
	w.add(specs...)
	declare := func(r task.Rate) {
		w.check("Declare", w.process().Queue.Declare(w.ctx, map[string]task.Rate{"k": r}))
	}
	declare(task.Rate{Count: 2, Per: time.Hour})
	count := func(tasks []driver.Fetched) map[string]int {
		n := map[string]int{}
		for _, t := range tasks {
			n[t.Kind]++
		}
		return n
	}
	pace := func() (driver.RateStatus, bool) {
		all, err := w.process().Tasks.Rates(w.ctx)
		w.check("Rates", err)
		p, found := all["k"]
		return p, found
	}
	p, _ := pace()
	equal(w, "what one costs", p.Each, 30*time.Minute)
	from := w.now(w.s)
	equal(w, "one may be fetched at once", p.Next.After(from), false)
	got := count(w.fetch(worker, 100))
	p, _ = pace()
	between(w, "when the next one may be fetched", from.Add(30*time.Minute), p.Next, w.now(w.s).Add(30*time.Minute))
	equal(w, "tasks of the kind with a rate", got["k"], 2)
	equal(w, "tasks of the kind without one", got["free"], 6)
	equal(w, "tasks for another worker", len(w.fetch(w.worker(w.process()), 100)), 0)
	for _, t := range w.tasks(driver.Filter{Kind: "k", States: []task.State{task.Available}}) {
		equal(w, "attempts of one that waits for its rate", t.Attempts, 0)
		why, err := queue.Why(w.ctx, w.s.Tasks, t, driver.Slots{}, w.now(w.s), time.Time{})
		w.check("Why", err)
		equal(w, "it is said why it waits", len(why) == 1 && strings.HasPrefix(why[0], "the rate of its kind, one in every 30m0s, is used up until "), true)
	}
	declare(task.Rate{})
	_, there := pace()
	equal(w, "a rate that was taken back is told", there, false)
	equal(w, "tasks when the rate is gone", count(w.fetch(worker, 100))["k"], 4)

	// The bucket fills with time, and holds no more than its burst.
	w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{"slow": {Count: 20, Per: time.Second, Burst: 1}}))
	specs = nil
	for range 4 {
		specs = append(specs, task.Spec{Queue: "q", Kind: "slow"})
	}
	w.add(specs...)
	var at []int64 // the instants of their being given, which are not quite that of the fetch: a first token is one (rule L10)
	for start := w.now(w.s); len(at) < 4; time.Sleep(5 * time.Millisecond) {
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker})
		if len(f.Tasks) > 1 {
			w.Errorf("%d tasks at once with a burst of 1", len(f.Tasks))
		}
		for _, t := range f.Tasks {
			at = append(at, int64(t.Token))
		}
		if f.Now.After(start.Add(20 * time.Second)) {
			w.Fatalf("%d of 4 in %v", len(at), f.Now.Sub(start))
		}
	}
	if d := time.Duration(at[3]-at[0]) * time.Microsecond; d < 150*time.Millisecond {
		w.Errorf("4 tasks within %v, at 20 a second", d)
	}
}

func fetchBehindRate(w *world) {
	worker := w.worker(w.s)
	w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{"slow": {Count: 1, Per: time.Hour, Burst: 1}}))
	rated := some()
	rated.Kind = "slow"
	first := w.add(rated)[0]
	w.order("what the rate allows", ids(w.fetch(worker, 1)), []task.ID{first})
	for i := range 60 {
		one := rated
		if i%2 == 0 {
			one.Limit = &task.Limit{Key: fmt.Sprint("r", i)}
		}
		w.add(one)
	}
	behind := w.add(limited("l", 1), some(), limited("m", 1))
	for _, id := range behind {
		w.order("behind 60 that wait for their rate", ids(w.fetch(worker, 1)), []task.ID{id})
	}
}
