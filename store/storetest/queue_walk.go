package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var walkPromises = []promise{
	// Holds: promise 23.
	{"states follow the drawing, whatever happens", randomWalk},
	// Holds: promise 19.
	{"nothing is lost or shared among workers that come, crash and go", randomCrowd},
}

// A walk does one random thing after the other to a few tasks, and knows after each of them what must
// hold. The suite prints its seed.
type walk struct {
	*world
	rng      *rand.Rand
	workers  []lease.Ref
	tasks    map[task.ID]driver.Task // as they stood after the last step
	runs     map[task.ID]run1        // what runs, as far as Fetch and Finish said
	begun    map[task.ID]bool        // those whose start was written
	tokens   map[string]lease.Token  // the last one of each task and limit
	max      map[task.Hash]int       // what holds of each limit
	declared map[task.Hash]int       // what its tasks declared last
	said     map[task.Hash]bool      // an operator's word stands
	paused   map[string]bool         // queues
	doing    string
}

// run1 is a run that the walk has to end.
type run1 struct {
	worker lease.Ref
	driver.Fetched
}

func randomWalk(w *world) {
	seed := rand.Uint64()
	w.Logf("seed %d", seed)
	k := &walk{world: w, rng: rand.New(rand.NewPCG(seed, seed)), tasks: map[task.ID]driver.Task{}, runs: map[task.ID]run1{}, begun: map[task.ID]bool{},
		tokens: map[string]lease.Token{}, max: map[task.Hash]int{}, declared: map[task.Hash]int{}, said: map[task.Hash]bool{}, paused: map[string]bool{}}
	k.workers = []lease.Ref{w.worker(w.s), w.worker(w.s)}
	steps := []func(){k.enqueue1, k.enqueue1, k.enqueue1, k.fetchSome, k.fetchSome, k.fetchSome, k.finishOne, k.finishOne, k.finishOne, k.finishOne,
		k.startOne, k.actOne, k.actOne, k.actOne, k.dieOne, k.pauseOne, k.setOne, k.maintainAll}
	length := 150
	if testing.Short() {
		length = 60
	}
	for n := range length {
		steps[k.rng.IntN(len(steps))]()
		k.look()
		if w.Failed() {
			w.Fatalf("seed %d, step %d: %s", seed, n, k.doing)
		}
	}
	k.drain()
}

func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

func (k *walk) enqueue1() {
	s := task.Spec{Queue: pick(k.rng, "a", "b"), Kind: pick(k.rng, "x", "y"), Priority: k.rng.IntN(3)}
	s.Delay = pick(k.rng, 0, 0, 0, time.Hour)
	s.MaxCrashes = 1 + k.rng.IntN(2)
	switch k.rng.IntN(4) {
	case 0:
		s.Unique = &task.Unique{Key: pick(k.rng, "f1", "f2"), Shared: true}
	case 1:
		s.Unique = &task.Unique{Key: pick(k.rng, "s1", "s2"), Shared: true, Until: task.UntilStarted}
	}
	if k.rng.IntN(2) == 0 {
		n := 1 + k.rng.IntN(3)
		s.Limit = &task.Limit{Key: fmt.Sprint("l", n), Max: n, Shared: n < 3, OnContention: pick(k.rng, task.Wait, task.Wait, task.Displace, task.Discard)}
	}
	k.doing = fmt.Sprintf("enqueue %+v %+v %+v", s, s.Unique, s.Limit)
	holder := k.holder(s.Unique)
	a := k.enqueue(k.s, s)[0]
	switch {
	case holder != 0:
		equal(k.world, "the answer to a taken key", a, task.Enqueued{Answer: task.Duplicate, ID: holder, State: k.tasks[holder].State})
	case a.Answer != task.New:
		k.Errorf("the answer to a free key: %+v", a)
	case s.Limit != nil:
		h := s.Limit.Hash(s.Kind)
		if k.declared[h] = s.Limit.Max; !k.said[h] {
			k.max[h] = s.Limit.Max
		}
	}
}

// holder is the task that holds a key, as the rules have it.
func (k *walk) holder(u *task.Unique) task.ID {
	for id, t := range k.tasks {
		if u != nil && t.Unique != nil && t.Unique.Key == u.Key && !t.State.Final() && (u.Until != task.UntilStarted || !k.begun[id]) {
			return id
		}
	}
	return 0
}

func (k *walk) fetchSome() {
	r := driver.FetchRequest{Worker: pick(k.rng, k.workers...), Queues: pick(k.rng, []string{"a"}, []string{"b", "a"}), Max: pick(k.rng, 1, 2, 100),
		Kinds: pick(k.rng, nil, nil, []string{"x"}), Suspects: true, Crashers: true}
	k.doing = fmt.Sprintf("fetch %+v", r)
	f := k.fetchWith(k.s, r)
	for _, t := range f.Tasks {
		if was := k.tasks[t.ID]; !was.State.Waiting() || k.paused[was.Queue] || !slices.Contains(r.Queues, was.Queue) || r.Kinds != nil && was.Kind != "x" {
			k.Errorf("it gave task %d, which was %s, of %s and %s", t.ID, was.State, was.Queue, was.Kind)
		}
		k.grew(fmt.Sprint("task ", t.ID), t.Token)
		if t.Limit != nil {
			k.grew(fmt.Sprint("limit ", t.Limit.Hash(t.Kind)), t.Token)
		}
		k.runs[t.ID] = run1{r.Worker, t}
	}
	k.look()
	if len(f.Tasks) < r.Max {
		k.exhausted(r)
	}
}

func (k *walk) grew(what string, token lease.Token) {
	if token <= k.tokens[what] {
		k.Errorf("%s: token %d after %d", what, token, k.tokens[what])
	}
	k.tokens[what] = token
}

// exhausted checks that a fetch which wanted more had a reason to leave what it left. Suspects are
// given one at a time, so they, and what waits behind them, may be left.
func (k *walk) exhausted(r driver.FetchRequest) {
	running, suspects := map[task.Hash]int{}, map[task.Hash]bool{}
	for _, t := range k.tasks {
		if t.Limit != nil {
			h := t.Limit.Hash(t.Kind)
			if t.State == task.Running {
				running[h]++
			}
			suspects[h] = suspects[h] || t.Suspect && t.State.Waiting()
		}
	}
	for id, t := range k.tasks {
		if t.State != task.Available && t.State != task.Blocked || t.Suspect || k.paused[t.Queue] || !slices.Contains(r.Queues, t.Queue) || r.Kinds != nil && t.Kind != "x" {
			continue
		}
		if t.Limit == nil {
			k.Errorf("a fetch with room left task %d, which is %s", id, t.State)
		} else if h := t.Limit.Hash(t.Kind); running[h] < k.max[h] && !suspects[h] {
			k.Errorf("a fetch with room left task %d, which is %s, with %d of %d running", id, t.State, running[h], k.max[h])
		}
	}
}

// oneRun is some run that has not ended; ok is false where there is none.
func (k *walk) oneRun() (r run1, ok bool) {
	if len(k.runs) == 0 {
		return r, false
	}
	var all []task.ID
	for id := range k.runs {
		all = append(all, id)
	}
	slices.Sort(all)
	return k.runs[pick(k.rng, all...)], true
}

func (k *walk) startOne() {
	if r, ok := k.oneRun(); ok {
		k.doing = fmt.Sprint("start ", r.ID)
		equal(k.world, "Start", k.world.begin(r.worker, r.Ref), driver.OK)
		k.begun[r.ID] = true
	}
}

func (k *walk) finishOne() {
	r, ok := k.oneRun()
	if !ok {
		return
	}
	v := pick(k.rng, driver.Success, driver.Success, driver.Retry, driver.Fail, driver.Cancel, driver.Drop, driver.Snooze, driver.Return)
	k.doing = fmt.Sprintf("finish %d with %d", r.ID, v)
	if v != driver.Return && r.MustStart() {
		equal(k.world, "Start", k.world.begin(r.worker, r.Ref), driver.OK)
		k.begun[r.ID] = true
	}
	asked := k.task(r.ID).Stop != ""
	c := k.ended(r.Ref, v)
	c.Delay = pick(k.rng, 0, time.Hour)
	equal(k.world, "Finish", k.finish(r.worker, c), driver.OK)
	delete(k.runs, r.ID)
	want := map[driver.Verdict]task.State{driver.Success: task.Succeeded, driver.Retry: task.Retryable, driver.Fail: task.Failed,
		driver.Cancel: task.Canceled, driver.Drop: task.Discarded, driver.Snooze: task.Retryable}[v]
	if asked && (v == driver.Retry || v == driver.Snooze || v == driver.Return) {
		want = task.Canceled
	}
	if s := k.task(r.ID).State; want != "" && s != want || want == "" && s != task.Available && s != task.Blocked {
		k.Errorf("state after verdict %d: %s", v, s)
	}
}

func (k *walk) actOne() {
	if len(k.tasks) == 0 {
		return
	}
	var all []task.ID
	for id := range k.tasks {
		all = append(all, id)
	}
	slices.Sort(all)
	id := pick(k.rng, all...)
	t, at, priority := k.tasks[id], k.now(k.s).Add(time.Hour), k.rng.IntN(3)
	a := driver.OpRequest{Operation: pick(k.rng, driver.OpRetry, driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit, driver.OpDelete),
		IDs: []task.ID{id}, Queue: pick(k.rng, "a", "b"), Edit: pick(k.rng, driver.Edit{Priority: &priority}, driver.Edit{RunAt: &at})}
	k.doing = fmt.Sprintf("%s of %d, which is %s", a.Operation, id, t.State)
	holder := task.ID(0)
	if a.Operation == driver.OpRetry && t.State.Final() && t.Unique != nil {
		holder = k.holder(t.Unique)
	}
	answer := k.act(a)[0]
	switch {
	case holder != 0:
		equal(k.world, "the answer", answer, driver.OpResult{ID: id, Answer: driver.Taken, State: t.State, Other: holder})
	case a.Operation == driver.OpRetry && t.State.Final():
		equal(k.world, "the answer", answer.Answer, driver.Done)
		delete(k.begun, id)
	case a.Operation == driver.OpDelete && t.State.Final():
		equal(k.world, "the answer", answer.Answer, driver.Done)
		delete(k.tasks, id)
	case a.Operation == driver.OpCancel && t.State == task.Running:
		equal(k.world, "the answer", answer.Answer, driver.Asking)
	case t.State.Waiting() && a.Operation != driver.OpDelete && (a.Operation != driver.OpRetry || t.State == task.Retryable):
		equal(k.world, "the answer", answer.Answer, driver.Done)
	default:
		equal(k.world, "the answer", answer, driver.OpResult{ID: id, Answer: driver.Unfit, State: t.State})
	}
}

// dieOne ends a worker without a word, and has its tasks rescued.
func (k *walk) dieOne() {
	i := k.rng.IntN(len(k.workers))
	dead := k.workers[i]
	k.doing = "a worker dies"
	k.release(k.s, dead)
	n, asked := 0, 0
	for id, r := range k.runs {
		if r.worker == dead {
			delete(k.runs, id)
			n++
			if k.tasks[id].Stop != "" {
				asked++ // it is canceled, unless this was one crash too many
			}
		}
	}
	t := k.maintain()
	if got := t.Rescued + t.Crashed; got < n-asked || got > n {
		k.Errorf("%d rescued and crashed, of %d, %d of which were asked to stop", got, n, asked)
	}
	equal(k.world, "repaired", t.Repaired, 0)
	k.workers[i] = k.worker(k.s)
}

func (k *walk) pauseOne() {
	q := pick(k.rng, "a", "b")
	k.doing = "pause or resume " + q
	if k.paused[q] {
		k.resume(q, "", true)
	} else if k.rng.IntN(2) == 0 {
		k.pauseQueue(driver.Pause{Queue: q})
		k.paused[q] = true
		return
	}
	delete(k.paused, q)
}

func (k *walk) setOne() {
	for h := range k.max {
		k.doing = "set a limit"
		n := k.rng.IntN(4)
		k.max[h], k.said[h] = n, n > 0
		if n == 0 {
			k.doing, k.max[h] = "take back what was said of a limit", k.declared[h]
		}
		k.setLimit(h, n, true)
		return
	}
}

func (k *walk) maintainAll() {
	k.doing = "maintain"
	equal(k.world, "repaired", k.maintain().Repaired, 0)
}

// look compares every task with how it stood before.
func (k *walk) look() {
	now, running, before := map[task.ID]driver.Task{}, map[task.Hash]int{}, map[task.Hash]int{}
	keys := map[string]task.ID{}
	for _, t := range k.world.tasks(driver.Filter{Max: 1000}) {
		now[t.ID] = t
		was := k.tasks[t.ID].State
		if !step1(was, t.State) {
			k.Errorf("task %d went from %q to %q", t.ID, was, t.State)
		}
		if _, runs := k.runs[t.ID]; runs != (t.State == task.Running) {
			k.Errorf("task %d is %s; a worker has it: %v", t.ID, t.State, runs)
		}
		if t.State == task.Running && t.Limit != nil {
			running[t.Limit.Hash(t.Kind)]++
		}
		if u := t.Unique; u != nil && !t.State.Final() && (u.Until != task.UntilStarted || !k.begun[t.ID]) {
			if other := keys[u.Key]; other != 0 {
				k.Errorf("tasks %d and %d both hold key %s", other, t.ID, u.Key)
			}
			keys[u.Key] = t.ID
		}
	}
	for id, t := range k.tasks {
		if _, there := now[id]; !there {
			k.Errorf("task %d is gone", id)
		}
		if t.State == task.Running && t.Limit != nil {
			before[t.Limit.Hash(t.Kind)]++
		}
	}
	for h, n := range running {
		if n > k.max[h] && n > before[h] {
			k.Errorf("%d run of a limit of %d", n, k.max[h])
		}
	}
	k.tasks = now
}

// step1 reports whether one operation may take a task from one state to the other. It may pass through available on
// its way: a task that became due is fetched at once, or finds its limit reached.
func step1(from, to task.State) bool {
	return from == to || task.Allowed(from, to) || task.Allowed(from, task.Available) && task.Allowed(task.Available, to)
}

// drain works all that is left, so that nothing can have been forgotten.
func (k *walk) drain() {
	for q := range k.paused {
		k.resume(q, "", true)
	}
	for _, r := range k.runs {
		k.done(r.worker, r.Ref, driver.Success)
	}
	var waiting []task.ID
	for id, t := range k.tasks {
		if t.State.Waiting() {
			waiting = append(waiting, id)
		}
	}
	k.act(driver.OpRequest{Operation: driver.OpPromote, IDs: waiting})
	for empty := 0; empty < 3; {
		f := k.fetchWith(k.s, driver.FetchRequest{Worker: k.workers[0], Queues: []string{"a", "b"}, Suspects: true, Crashers: true})
		for _, t := range f.Tasks {
			k.done(k.workers[0], t.Ref, driver.Success)
		}
		empty++
		if len(f.Tasks) > 0 {
			empty = 0
		}
	}
	for _, t := range k.world.tasks(driver.Filter{Max: 1000}) {
		if !t.State.Final() {
			k.Errorf("task %d is %s, and nobody is given it", t.ID, t.State)
		}
	}
}
