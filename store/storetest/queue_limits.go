package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

var limitPromises = []promise{
	{"a limit of one is worked one by one, first come first served", limitOne},
	{"a limit of three lets three run", limitThree},
	// Holds: promise 18.
	{"never more than the limit run under concurrent workers", limitTogether},
	// Holds: promise 18.
	{"a freed slot wakes the oldest of every queue and kind", limitWakes},
	// Holds: promise 18.
	{"whatever ends a run frees its slot", limitFreed},
	// Holds: promise 18.
	{"blocked tasks stand in nobody's way", limitBlocked},
	// Holds: promise 18.
	{"order within a limit is front, priority, id", limitOrder},
	{"a limit is its kind's, or shared, and never its queue's", limitIdentity},
	{"a task that waits in the open keeps no place in the line", limitOpen},
	// Holds: promise 21.
	{"discard ends what finds its limit reached", limitDiscard},
	// Holds: promise 21.
	{"displace stops its like, supersedes older ones, and runs", limitDisplace},
	{"displace stops what the same fetch gives", limitDisplaceAtOnce},
	{"the last declaration of a limit wins, and is an event", limitDeclared},
	{"a task that is refused within a batch declares no limit", limitRefused},
	{"raising a limit lets more run at once", limitRaised},
	// Holds: promise 18.
	{"an operator's word on a limit stands until it is taken back", limitSaid},
	// Holds: promise 18.
	{"a word on a limit is its own, and is listed", limitListed},
	{"lowering a limit stops nothing", limitLowered},
	{"tokens grow across the tasks of a limit", limitTokens},
	// Holds: promise 20.
	{"a task that waits for a retry holds no slot", limitRetry},
	// Holds: Q5.
	{"a limit that is raised over many lets all of them run", limitRaisedOverMany},
	// Holds: Q5.
	{"one that supersedes many runs once they are superseded", limitSupersedesMany},
}

// many is more than any store changes in one step of its own.
const many = 2500

func addMany(w *world, s task.Spec) (all []task.ID) {
	w.Helper()
	for n := many; n > 0; n -= 500 {
		specs := make([]task.Spec, 500)
		for i := range specs {
			specs[i] = s
		}
		all = append(all, w.add(specs...)...)
	}
	return all
}

// limitRaisedOverMany: a step is bounded, and what is left over is done by those that follow (rule Q5).
func limitRaisedOverMany(w *world) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	all := addMany(w, limited("l", 1))
	w.done(worker, w.fetches("the first", worker, 10, all[0])[0].Ref, driver.Success)
	w.maintain()
	ok, err := w.s.Tasks.SetLimit(w.ctx, (&task.Limit{Key: "l"}).Hash("k"), many, "me")
	w.check("SetLimit", err)
	equal(w, "SetLimit", ok, true)
	var got []task.ID
	for idle := 0; len(got) < many-1 && idle < 20; {
		f := w.fetch(worker, 700)
		if got = append(got, ids(f)...); len(f) == 0 {
			idle++
			w.maintain()
		}
	}
	w.order("all that waited", got, all[1:])
}

// limitSupersedesMany: the newest of many that would replace what runs is the one that does, however many steps
// it takes.
func limitSupersedesMany(w *world) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	s := limited("l", 1)
	s.Limit.OnContention = task.Displace
	first := w.fetch1(worker, w.add1(s))
	w.check("Pause", w.s.Tasks.Pause(w.ctx, driver.Pause{Queue: "q", By: "me", Why: "because"}))
	older := addMany(w, s)
	s.Priority = 9
	last := w.add1(s)
	_, err := w.s.Tasks.Resume(w.ctx, "q", "", "me")
	w.check("Resume", err)
	for idle := 0; w.task(last).State != task.Blocked; idle++ {
		w.fetches("while the first runs", worker, 10)
		if idle > many {
			w.Fatalf("task %d is %s", last, w.task(last).State)
		}
	}
	asked, err := w.s.Queue.Running(w.ctx, worker, true)
	w.check("Mine", err)
	equal(w, "tasks that are to stop", len(asked), 1)
	for _, id := range []task.ID{older[0], older[many/2], older[many-1]} {
		w.state("an older one", id, task.Discarded, task.ReasonSuperseded)
	}
	w.done(worker, first.Ref, driver.Success)
	w.done(worker, w.fetch1(worker, last).Ref, driver.Success)
	equal(w, "tasks left", len(w.fetch(worker, 10)), 0)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

func limitOne(w *world) {
	worker, other := w.worker(w.s), w.worker(w.process())
	all := w.add(limited("l", 1), limited("l", 1), limited("l", 1), limited("l", 1))
	for i, id := range all {
		f := w.fetches("the one whose turn it is", worker, 10, id)[0]
		equal(w, "what another worker finds", len(w.fetch(other, 10)), 0)
		for _, later := range all[i+1:] {
			equal(w, "state of one that waits", w.task(later).State, task.Blocked)
		}
		_, held, _ := w.find(id)
		equal(w, "slots", held.Max, 1)
		equal(w, "tasks that wait for one", held.Waiting, len(all)-1-i)
		if len(held.Running) != 1 || held.Running[0].ID != id || held.Running[0].Worker.Lease != worker || held.Running[0].Kind != "k" || held.Key != "l" {
			w.Errorf("who holds the slots: %+v", held)
		}
		worker, other = other, worker
		w.done(other, f.Ref, driver.Success)
	}
	for _, id := range all {
		t := w.task(id)
		equal(w, "state at the end", t.State, task.Succeeded)
		equal(w, "attempts that waiting has cost", t.Attempts, 1)
	}
}

func limitThree(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for range 7 {
		specs = append(specs, limited("l", 3))
	}
	all := w.add(specs...)
	first := w.fetches("the first fetch", worker, 2, all[:2]...)
	second := w.fetches("the second fetch", worker, 10, all[2])
	w.fetches("a third fetch", worker, 10)
	w.done(worker, first[1].Ref, driver.Success)
	w.fetches("when one has ended", worker, 10, all[3])
	w.done(worker, first[0].Ref, driver.Success)
	w.done(worker, second[0].Ref, driver.Success)
	w.fetches("when two more have", worker, 10, all[4:6]...)
	equal(w, "state of the last", w.task(all[6]).State, task.Blocked)
}

// limitTogether counts, outside the store, how many run of each limit.
func limitTogether(w *world) {
	const workers, keys, each = 8, 3, 40
	var specs []task.Spec
	for i := range keys * each {
		k := i % keys
		s := limited(fmt.Sprint("l", k), k+1)
		s.Kind = fmt.Sprint("k", i%2)
		s.Limit.Shared = true
		specs = append(specs, s)
	}
	w.add(specs...)
	processes := []*store.Store{w.s, w.process(), w.process()}
	refs := make([]lease.Ref, workers)
	for i := range refs {
		refs[i] = w.worker(processes[i%3])
	}
	var mu sync.Mutex
	running, done, last := map[string]int{}, 0, map[string]lease.Token{}
	enter := func(f driver.Fetched) {
		mu.Lock()
		defer mu.Unlock()
		running[f.Limit.Key]++
		if n := running[f.Limit.Key]; n > f.Limit.Max {
			w.Errorf("%d run of %s, whose limit is %d", n, f.Limit.Key, f.Limit.Max)
		}
		// Under a limit of one nobody overtakes anybody, so what the holder is told must grow.
		if f.Limit.Max == 1 && f.Token <= last[f.Limit.Key] {
			w.Errorf("token %d of %s after %d", f.Token, f.Limit.Key, last[f.Limit.Key])
		}
		last[f.Limit.Key] = max(last[f.Limit.Key], f.Token)
	}
	leave := func(f driver.Fetched) {
		mu.Lock()
		defer mu.Unlock()
		running[f.Limit.Key]--
		done++
	}
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done == keys*each
	}
	together(workers, func(i int) {
		s := processes[i%3]
		for !over() && !w.Failed() && w.ctx.Err() == nil {
			f, err := s.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: refs[i], Queues: []string{"q"}, Max: 1 + i%3})
			if err != nil {
				w.Errorf("Fetch: %v", err)
				return
			}
			for _, t := range f.Tasks {
				enter(t)
			}
			for _, t := range f.Tasks {
				leave(t)
				answers, err := finish(w.ctx, s, refs[i], []driver.Completion{{Ref: t.Ref, Verdict: driver.Success}})
				if err != nil || len(answers) != 1 || answers[0] != driver.OK {
					w.Errorf("Finish: %v, %v", answers, err)
					return
				}
			}
			if len(f.Tasks) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	equal(w, "tasks that were worked", done, keys*each)
	equal(w, "tasks that succeeded", len(w.tasks(driver.Filter{States: []task.State{task.Succeeded}, Max: 1000})), keys*each)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

// limitWakes: workers of different queues and kinds wait behind one key, and each must find its own.
func limitWakes(w *world) {
	worker := w.worker(w.s)
	of := func(q, kind string) task.Spec {
		return task.Spec{Queue: q, Kind: kind, Limit: &task.Limit{Key: "l", Shared: true}}
	}
	first := w.add1(of("q", "k"))
	f := w.fetch1(worker, first)
	subs := []task.Spec{of("a", "x"), of("a", "y"), of("b", "x"), of("q", "k")}
	heads, seconds := w.add(subs...), w.add(subs...)
	for _, q := range []string{"a", "b", "q"} {
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{q}})
		equal(w, "tasks while the slot is taken", len(got.Tasks), 0)
	}
	for i, id := range append(heads, seconds...) {
		equal(w, fmt.Sprintf("state of task %d behind the key", i), w.task(id).State, task.Blocked)
	}
	w.done(worker, f.Ref, driver.Success)
	for i, id := range heads {
		equal(w, "state of the head of "+subs[i].Queue+subs[i].Kind, w.task(id).State, task.Available)
	}
	for _, id := range seconds {
		equal(w, "state of a second", w.task(id).State, task.Blocked)
	}
	for round, turn := range [][]task.ID{heads, seconds} {
		for i, id := range turn {
			got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{subs[i].Queue}, Kinds: []string{subs[i].Kind}})
			w.order(fmt.Sprintf("round %d of %s, %s", round, subs[i].Queue, subs[i].Kind), ids(got.Tasks), []task.ID{id})
			if len(got.Tasks) == 1 {
				w.done(worker, got.Tasks[0].Ref, driver.Success)
			}
		}
	}
}

func limitFreed(w *world) {
	next := func(what string, worker lease.Ref, id task.ID) driver.Fetched {
		w.Helper()
		got := w.fetches("after "+what, worker, 1, id)
		if len(got) != 1 {
			w.FailNow()
		}
		return got[0]
	}
	worker := w.worker(w.s)
	for i, v := range []driver.Verdict{driver.Success, driver.Retry, driver.Fail, driver.Cancel, driver.Drop, driver.Snooze} {
		s := limited(fmt.Sprint("l", i), 1)
		first, second := w.add1(s), w.add1(s)
		c := w.ended(w.fetch1(worker, first).Ref, v)
		c.Delay = time.Hour
		equal(w, "state of the second", w.task(second).State, task.Blocked)
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		f := next(fmt.Sprint("verdict ", v), worker, second)
		w.done(worker, f.Ref, driver.Success)
	}

	// What is handed back, or rescued, keeps its place before the others.
	s := limited("back", 1)
	both := w.add(s, s)
	f := w.fetch1(worker, both[0])
	w.done(worker, f.Ref, driver.Return)
	f = next("a return", worker, both[0])
	equal(w, "state of the second", w.task(both[1]).State, task.Blocked)
	w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
	worker = w.worker(w.s)
	f = next("a rescue", worker, both[0])
	w.done(worker, f.Ref, driver.Success)
	next("its success", worker, both[1])
}

// limitBlocked puts many tasks behind one key and looks past them.
func limitBlocked(w *world) {
	const behind = 3000
	worker := w.worker(w.s)
	holder := w.add1(limited("l", 1))
	held := w.fetch1(worker, holder)
	var specs []task.Spec
	for range behind / 10 {
		specs = append(specs, limited("l", 1))
	}
	var blocked []task.ID
	for range 10 {
		blocked = append(blocked, w.add(specs...)...)
	}
	w.fetches("all of them behind the key", worker, 100)
	free := w.add(some(), limited("another", 1))
	w.fetches("those that are not", worker, 100, free...)
	for _, id := range []task.ID{blocked[0], blocked[behind/2], blocked[behind-1]} {
		equal(w, "state of one behind the key", w.task(id).State, task.Blocked)
	}
	for _, id := range blocked[:20] {
		w.done(worker, held.Ref, driver.Success)
		got := w.fetches("the next behind the key", worker, 100, id)
		if len(got) != 1 {
			return
		}
		held = got[0]
	}
}

func limitOrder(w *world) {
	worker := w.worker(w.s)
	of := func(priority int) task.Spec {
		s := limited("l", 1)
		s.Priority = priority
		return s
	}
	held := w.fetch1(worker, w.add1(of(0)))
	all := w.add(of(0), of(5), of(0), of(-3), of(9), of(0))
	w.fetches("behind the key", worker, 10)
	w.acted(driver.OpPromote, all[3], driver.Done)
	first := 1
	w.act(driver.OpRequest{Operation: driver.OpEdit, IDs: all[5:6], Edit: driver.Edit{Priority: &first}})
	late := w.add1(of(7)) // comes when the others are blocked already
	for _, id := range []task.ID{all[3], all[4], late, all[1], all[5], all[0], all[2]} {
		w.done(worker, held.Ref, driver.Success)
		got := w.fetches("the next behind the key", worker, 10, id)
		if len(got) != 1 {
			return
		}
		held = got[0]
	}
}

func limitIdentity(w *world) {
	worker := w.worker(w.s)
	of := func(q, kind string, shared bool) task.Spec {
		return task.Spec{Queue: q, Kind: kind, Limit: &task.Limit{Key: "l", Shared: shared}}
	}
	all := w.add(of("q", "a", false), of("q", "b", false), of("q", "a", true), of("q2", "a", false), of("q2", "b", true), of("q2", "c", false))
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"q", "q2"}})
	w.order("one of every limit", ids(got.Tasks), []task.ID{all[0], all[1], all[2], all[5]})
	equal(w, "state behind the kind's key", w.task(all[3]).State, task.Blocked)
	equal(w, "state behind the shared key", w.task(all[4]).State, task.Blocked)

	var specs []task.Spec
	for _, k := range unlike {
		specs = append(specs, limited(string(k), 1))
	}
	w.fetches("one of every key", worker, 1000, w.add(specs...)...)
}

// What wants to be discarded or to displace waits for a fetch, and for nothing that its limit could give it. So
// it is not the one that a freed slot wakes.
func limitOpen(w *world) {
	for _, c := range []task.Contention{task.Discard, task.Displace} {
		worker := w.worker(w.s)
		f := w.fetch1(worker, w.add1(limited(string(c), 1)))
		open, waits := limited(string(c), 1), limited(string(c), 1)
		open.Limit.OnContention, waits.Priority = c, 3
		all := w.add(open, waits)
		w.state("the one in the open", all[0], task.Available, "")
		w.state("the one in the line", all[1], task.Blocked, "")
		w.done(worker, f.Ref, driver.Success)
		w.state("the one in the line, once the slot is free", all[1], task.Available, "")
		w.done(worker, w.fetches("the first in order", worker, 1, all[1])[0].Ref, driver.Success)
		w.done(worker, w.fetch1(worker, all[0]).Ref, driver.Success)

		w.state("beside one in the open", w.add(open, waits)[1], task.Available, "")
		open.Limit, waits.Limit = &task.Limit{Key: string(c) + "2", OnContention: c}, &task.Limit{Key: string(c) + "2"}
		w.add1(open)
		w.state("after one in the open", w.add1(waits), task.Available, "")
		for _, t := range w.fetch(worker, 100) {
			w.done(worker, t.Ref, driver.Success)
		}
	}
	equal(w, "repairs", w.maintain().Repaired, 0)
}

func limitDiscard(w *world) {
	worker := w.worker(w.s)
	s := limited("l", 1)
	s.Limit.OnContention = task.Discard
	first := w.add1(s)
	f := w.fetch1(worker, first)
	second := w.add1(s)
	equal(w, "state before a fetch meets it", w.task(second).State, task.Available)
	free := w.add1(some())
	w.fetches("a fetch that meets it", worker, 10, free)
	w.state("the one that met its limit", second, task.Discarded, task.ReasonOverlap)
	equal(w, "its attempts", w.task(second).Attempts, 0)
	w.done(worker, f.Ref, driver.Success)
	w.fetches("nothing comes back", worker, 10)
	third := w.add1(s)
	w.fetches("with a free slot", worker, 10, third)
}

func limitDisplace(w *world) {
	worker := w.worker(w.s)
	displacing, waiting := limited("l", 1), limited("l", 1)
	displacing.Limit.OnContention = task.Displace
	asked := func(want ...driver.RunningTask) {
		w.Helper()
		got, err := w.s.Queue.Running(w.ctx, worker, true)
		w.check("Mine", err)
		if len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
			w.Errorf("tasks that are asked to stop: %+v, want %+v", got, want)
		}
	}
	first := w.fetch1(worker, w.add1(displacing))
	asked()
	second := w.add1(displacing)
	asked() // it has not met its limit yet
	w.fetches("a fetch that meets the second", worker, 10)
	asked(driver.RunningTask{Ref: first.Ref, Stop: task.ReasonReplaced})
	equal(w, "state of the second", w.task(second).State, task.Blocked)
	equal(w, "why the first is to stop", w.task(first.ID).Stop, task.ReasonReplaced)
	patient, third := w.add1(waiting), w.add1(displacing)
	w.fetches("a fetch that meets the third", worker, 10)
	w.state("the second", second, task.Discarded, task.ReasonSuperseded)
	equal(w, "state of one that only waits", w.task(patient).State, task.Blocked)
	c := w.ended(first.Ref, driver.Cancel)
	c.Reason = task.ReasonReplaced
	equal(w, "Finish of the first", w.finish(worker, c), driver.OK)
	w.state("the first", first.ID, task.Canceled, task.ReasonReplaced)
	f := w.fetches("the oldest that waits", worker, 10, patient)
	fourth := w.add1(displacing)
	w.fetches("a fetch that meets the fourth", worker, 10)
	asked() // what did not declare it is not asked to stop
	w.state("the third", third, task.Discarded, task.ReasonSuperseded)
	w.done(worker, f[0].Ref, driver.Success)
	f = w.fetches("the fourth", worker, 10, fourth)
	equal(w, "why the fourth is to stop", w.task(fourth).Stop, "")
	fifth := w.add1(displacing)
	w.fetches("a fetch that meets the fifth", worker, 10)
	equal(w, "state of the fourth, which has waited and runs", w.task(fourth).State, task.Running)
	asked(driver.RunningTask{Ref: f[0].Ref, Stop: task.ReasonReplaced})
	equal(w, "state of the fifth", w.task(fifth).State, task.Blocked)
}

// limitDisplaceAtOnce: the one that runs is given by the very fetch that comes to the newer one.
func limitDisplaceAtOnce(w *world) {
	worker := w.worker(w.s)
	s := limited("l", 1)
	s.Limit.OnContention = task.Displace
	s.Priority = 9
	first := w.add1(s)
	s.Priority = 0
	second := w.add1(s)
	f := w.fetches("a fetch that meets both", worker, 10, first)
	asked, err := w.s.Queue.Running(w.ctx, worker, true)
	w.check("Mine", err)
	if len(asked) != 1 || asked[0] != (driver.RunningTask{Ref: f[0].Ref, Stop: task.ReasonReplaced}) {
		w.Errorf("tasks that are asked to stop: %+v, want %+v", asked, f[0].Ref)
	}
	equal(w, "state of the second", w.task(second).State, task.Blocked)
	c := w.ended(f[0].Ref, driver.Cancel)
	c.Reason = task.ReasonReplaced
	equal(w, "Finish of the first", w.finish(worker, c), driver.OK)
	w.fetches("the second", worker, 10, second)
}

// limitEvents are the events of a limit's key, in words, the newest first.
func (w *world) limitEvents() (found []string) {
	for _, e := range w.happened("limit-changed") {
		found = append(found, e.Reason)
	}
	return found
}

// said checks which words of operators stand.
func (w *world) said(want ...driver.Word) {
	w.Helper()
	got, err := w.s.Tasks.Limits(w.ctx)
	w.check("Limits", err)
	for i := range got {
		if got[i].Since.IsZero() {
			w.Errorf("%+v: since when?", got[i])
		}
		got[i].Since = time.Time{}
	}
	if !slices.Equal(got, want) {
		w.Errorf("words that stand:\n%+v\nwant\n%+v", got, want)
	}
}

func (w *world) setLimit(key task.Hash, n int, want bool) {
	w.Helper()
	ok, err := w.s.Tasks.SetLimit(w.ctx, key, n, "me")
	w.check("SetLimit", err)
	equal(w, "SetLimit", ok, want)
}

func limitTokens(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for range 20 {
		specs = append(specs, limited("l", 1))
	}
	w.add(specs...)
	var last lease.Token
	for range specs {
		got := w.fetch(worker, 10)
		if len(got) != 1 {
			w.Fatalf("Fetch: %v", ids(got))
		}
		if got[0].Token <= last {
			w.Errorf("token %d after %d", got[0].Token, last)
		}
		last = got[0].Token
		w.done(worker, got[0].Ref, driver.Success)
	}
}

func limitRetry(w *world) {
	worker := w.worker(w.s)
	first, second := w.add1(limited("l", 1)), w.add1(limited("l", 1))
	c := w.ended(w.fetch1(worker, first).Ref, driver.Retry)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	f := w.fetches("meanwhile", worker, 10, second)
	now := w.now(w.s)
	w.act(driver.OpRequest{Operation: driver.OpEdit, IDs: []task.ID{first}, Edit: driver.Edit{RunAt: &now}})
	w.fetches("when its instant has come and the slot is taken", worker, 10)
	equal(w, "its state", w.task(first).State, task.Blocked)
	w.done(worker, f[0].Ref, driver.Success)
	w.fetches("when the slot is free", worker, 10, first)
	equal(w, "its attempts: waiting has cost none", w.task(first).Attempts, 1)
}
