package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

var uniquePromises = []promise{
	{"until finished holds the key until a final state", untilFinished},
	// Holds: promise 17.
	{"until finished holds the key across retries", uniqueAcrossRetries},
	// Holds: promise 17.
	{"every final state frees the key", uniqueFreed},
	// Holds: promise 17.
	{"until started frees the key at the start and not at the fetch", untilStarted},
	// Holds: promise 17.
	{"until started is not retaken by a retry", untilStartedRetry},
	// Holds: promise 17.
	{"a window holds the key after success only", uniqueWindow},
	// Holds: promise 16.
	{"one of a hundred concurrent enqueuers of a key is taken", hundredEnqueuers},
	// Holds: promise 16.
	{"duplicates within a batch are answered one after the other", uniqueBatch},
	{"a batch tells the state of a task as it is when its turn comes", uniqueStates},
	{"a batch of keys, some of which are held, keeps its order", keyedBatch},
	{"concurrent batches of the same keys do not wait for each other for ever", crossedBatches},
	// Holds: promise 17.
	{"a key is its kind's, or shared, and never its queue's", uniqueIdentity},
	{"keys are compared byte by byte in the queue as well", uniqueKeys},
	// Holds: promise 17.
	{"replace gives the waiting task what is new", replaceWaiting},
	{"what comes after the start is a task of its own", replaceStarted},
	{"a key is free when all who ever had it end together", replacedTogether},
	{"who would replace takes no key that is held until the end, or in its window", replaceHeld},
	// Holds: promise 17.
	{"debounce puts off, but not beyond its longest wait", debounce},
	{"replacing keeps one of many that come at once", replaceTogether},
}

// The one that was replaced waits again, without the key, since its worker died before the start.
func replacedTogether(w *world) {
	s := unique("u", task.UntilStarted)
	s.Unique.Again = task.Replace
	worker := w.worker(w.s)
	older := w.add1(s)
	w.fetch1(worker, older)
	newer := w.add1(s)
	equal(w, "rescued", w.dies(worker).Rescued, 1)
	for _, a := range w.act(driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{newer, older}, By: "ops"}) {
		equal(w, "cancel", a.Answer, driver.Done)
	}
	w.add1(unique("u", task.UntilFinished))
}

func untilFinished(w *world) {
	worker := w.worker(w.s)
	s := unique("u", "") // the default
	later := s
	later.Delay = time.Hour
	id := w.add1(later)
	w.duplicate(s, id, task.Scheduled)
	w.acted(driver.OpPromote, id, driver.Done)
	w.duplicate(s, id, task.Available)
	f := w.fetch1(worker, id)
	w.duplicate(s, id, task.Running)
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	w.duplicate(s, id, task.Running)
	w.done(worker, f.Ref, driver.Success)
	again := w.add1(s)
	equal(w, "a later task has a larger id", again > id, true)
	w.duplicate(s, again, task.Available)
	equal(w, "tasks", len(w.tasks(driver.Filter{Unique: "u"})), 2)
}

func uniqueStates(w *world) {
	now := replacer("u", "")
	again := unique("u", task.UntilStarted)
	later := w.later(now)
	got := w.enqueue(w.s, later, again, now, again, later)
	for i, want := range []task.Enqueued{
		{Answer: task.New, State: task.Scheduled}, {Answer: task.Duplicate, State: task.Scheduled}, {Answer: task.Updated, State: task.Available},
		{Answer: task.Duplicate, State: task.Available}, {Answer: task.Updated, State: task.Scheduled}} {
		want.ID = got[0].ID
		equal(w, fmt.Sprint("answer ", i), got[i], want)
	}
	// So it is with one that stands in line.
	later = w.later(replacer("v", "l"))
	id := w.add1(replacer("v", "l"))
	for _, a := range w.enqueue(w.s, keyed("v", ""), later)[:1] {
		equal(w, "the answer of one in line", a, task.Enqueued{Answer: task.Duplicate, ID: id, State: task.Available})
	}
}

// keyedBatch is of tasks that differ in their keys and arguments only, and then in more. A store that takes keys in an
// order of its own gives each task what is its own nevertheless, and ids in the order of the batch.
func keyedBatch(w *world) {
	for _, alike := range []bool{true, false} {
		var specs, before []task.Spec
		for i := range 60 {
			s := unique(fmt.Sprint(alike, i), "")
			s.Args = json.RawMessage(strconv.Itoa(i))
			if !alike {
				s.Priority, s.Kind = i%5, fmt.Sprint("k", i%3)
			}
			if specs = append(specs, s); i%7 == 3 {
				before = append(before, s)
			}
		}
		held, last := w.add(before...), task.ID(0)
		for i, a := range w.enqueue(w.s, specs...) {
			if i%7 == 3 {
				equal(w, "the answer to a held key", a, task.Enqueued{Answer: task.Duplicate, ID: held[i/7], State: task.Available})
				continue
			}
			if a.Answer != task.New || a.ID <= last {
				w.Errorf("item %d: %+v after id %d", i, a, last)
			}
			last = a.ID
			t := w.task(a.ID)
			equal(w, "arguments", string(t.Args), string(specs[i].Args))
			equal(w, "key", t.Unique.Key, specs[i].Unique.Key)
			equal(w, "priority", t.Priority, specs[i].Priority)
			equal(w, "kind", t.Kind, specs[i].Kind)
		}
	}
}

func uniqueAcrossRetries(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	id := w.add1(s)
	c := w.ended(w.fetch1(worker, id).Ref, driver.Retry)
	c.Delay = 10 * time.Millisecond
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	a := w.enqueue(w.s, s)[0]
	if a.Answer != task.Duplicate || a.ID != id {
		w.Errorf("Enqueue while it waits for its retry: %+v", a)
	}
	w.past(c.Delay)
	f := w.fetch1(worker, id)
	w.duplicate(s, id, task.Running)
	c = w.ended(f.Ref, driver.Snooze)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	w.duplicate(s, id, task.Retryable)
	w.acted(driver.OpPromote, id, driver.Done)
	w.done(worker, w.fetch1(worker, id).Ref, driver.Return)
	w.duplicate(s, id, task.Available)
}

func uniqueFreed(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	free := func(what string, id task.ID, want task.State) {
		w.Helper()
		equal(w, "state after "+what, w.task(id).State, want)
		a := w.enqueue(w.s, s)[0]
		if a.Answer != task.New {
			w.Fatalf("Enqueue after %s: %+v", what, a)
		}
		w.acted(driver.OpCancel, a.ID, driver.Done)
	}
	for v, want := range map[driver.Verdict]task.State{driver.Success: task.Succeeded, driver.Fail: task.Failed, driver.Cancel: task.Canceled, driver.Drop: task.Discarded} {
		id := w.add1(s)
		w.done(worker, w.fetch1(worker, id).Ref, v)
		free(string(want), id, want)
	}
	for act, want := range map[driver.Operation]task.State{driver.OpCancel: task.Canceled, driver.OpDiscard: task.Discarded} {
		id := w.add1(s)
		w.acted(act, id, driver.Done)
		free(string(act), id, want)
	}
	expiring := s
	expiring.ExpiresAt = w.now(w.s).Add(20 * time.Millisecond)
	id := w.add1(expiring)
	w.until(expiring.ExpiresAt)
	w.maintain()
	free("its expiry", id, task.Discarded)
}

func untilStarted(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilStarted)
	id := w.add1(s)
	w.duplicate(s, id, task.Available)
	f := w.fetch1(worker, id)
	equal(w, "its start must be written", f.MustStart(), true)
	w.duplicate(s, id, task.Running)
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	second := w.add1(s) // one runs, and one waits
	w.duplicate(s, second, task.Available)
	w.done(worker, f.Ref, driver.Success)
	w.duplicate(s, second, task.Available) // whoever ended did not hold it any more

	// What is handed back before it started holds the key as before.
	f = w.fetch1(worker, second)
	w.done(worker, f.Ref, driver.Return)
	w.duplicate(s, second, task.Available)
	f = w.fetch1(worker, second)
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	w.add1(s)
}

func untilStartedRetry(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilStarted)
	first := w.add1(s)
	f := w.fetch1(worker, first)
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	w.done(worker, f.Ref, driver.Retry)
	second := w.add1(s)
	f = w.fetches("both", worker, 10, first, second)[0]
	equal(w, "Start of the retry", w.begin(worker, f.Ref), driver.OK)
	w.duplicate(s, second, task.Running) // its start frees nothing of the second
	w.done(worker, f.Ref, driver.Fail)
	w.duplicate(s, second, task.Running) // nor does its end
}

func uniqueWindow(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	s.Unique.Window = 150 * time.Millisecond
	failed := w.add1(s)
	w.done(worker, w.fetch1(worker, failed).Ref, driver.Fail)
	id := w.add1(s) // a failure opens no window
	w.done(worker, w.fetch1(worker, id).Ref, driver.Success)
	ended := w.task(id).Ended
	for {
		a := w.enqueue(w.s, s)[0]
		if a.Answer == task.New {
			if at := w.task(a.ID).Enqueued; at.Before(ended.Add(s.Unique.Window)) {
				w.Errorf("it was taken in at %v; the window ends at %v", at, ended.Add(s.Unique.Window))
			}
			break
		}
		equal(w, "Enqueue within the window", a, task.Enqueued{Answer: task.Duplicate, ID: id, State: task.Succeeded})
		if w.Failed() || w.now(w.s).After(ended.Add(10*time.Second)) {
			w.Fatalf("the window does not end")
		}
		w.maintain() // nobody need do so for the window to end, and it ends none early
		w.past(20 * time.Millisecond)
	}
	equal(w, "the state of the first", w.task(id).State, task.Succeeded)
}

func hundredEnqueuers(w *world) {
	const callers = 100
	processes := []*store.Store{w.s, w.process(), w.process(), w.process()}
	answers := make([]task.Enqueued, callers)
	var lost atomic.Bool // an answer: it may have been that of the first
	together(callers, func(i int) {
		s := unique("u", task.UntilFinished)
		_ = s.Check()
		a, err := processes[i%len(processes)].Queue.Enqueue(w.ctx, []task.Spec{s})
		for errors.Is(err, lease.ErrUnavailable) && w.ctx.Err() == nil { // a slow machine
			lost.Store(true)
			a, err = processes[i%len(processes)].Queue.Enqueue(w.ctx, []task.Spec{s})
		}
		if err != nil || len(a) != 1 {
			w.Errorf("Enqueue: %v, %v", a, err)
			return
		}
		answers[i] = a[0]
	})
	taken := w.tasks(driver.Filter{})
	if len(taken) != 1 {
		w.Fatalf("%d tasks were taken in", len(taken))
	}
	count := map[task.Admission]int{}
	for _, a := range answers {
		count[a.Answer]++
		equal(w, "the id in an answer", a.ID, taken[0].ID)
		equal(w, "the state in an answer", a.State, task.Available)
	}
	if n := count[task.New]; n != 1 && !(n == 0 && lost.Load()) {
		w.Errorf("%d answers say that it is new", n)
	}
	equal(w, "answers that it is new, or a duplicate", count[task.New]+count[task.Duplicate], callers)
}

func uniqueBatch(w *world) {
	there := w.add1(unique("there", task.UntilFinished))
	a := w.enqueue(w.s, unique("a", task.UntilFinished), some(), unique("there", task.UntilStarted), unique("b", task.UntilStarted),
		unique("a", task.UntilStarted), unique("b", task.UntilFinished), some())
	want := []task.Enqueued{
		{Answer: task.New, ID: a[0].ID, State: task.Available}, {Answer: task.New, ID: a[1].ID, State: task.Available},
		{Answer: task.Duplicate, ID: there, State: task.Available}, {Answer: task.New, ID: a[3].ID, State: task.Available},
		{Answer: task.Duplicate, ID: a[0].ID, State: task.Available}, {Answer: task.Duplicate, ID: a[3].ID, State: task.Available},
		{Answer: task.New, ID: a[6].ID, State: task.Available},
	}
	for i := range want {
		equal(w, "an item of the batch", a[i], want[i])
	}
	if a[0].ID >= a[1].ID || a[1].ID >= a[3].ID || a[3].ID >= a[6].ID {
		w.Errorf("ids do not grow within the batch: %+v", a)
	}
	equal(w, "tasks", len(w.tasks(driver.Filter{})), 5)

	// The second of a batch may replace the first.
	s := unique("r", task.UntilStarted)
	s.Unique.Again = task.Replace
	newer := s
	newer.Args = json.RawMessage(`2`)
	a = w.enqueue(w.s, s, newer)
	equal(w, "the second of a batch", a[1], task.Enqueued{Answer: task.Updated, ID: a[0].ID, State: task.Available})
	w.sameJSON("its arguments", w.task(a[0].ID).Args, newer.Args)
	later := s
	later.RunAt = w.now(w.s).Add(time.Hour)
	a = w.enqueue(w.s, s, later, s, later)
	equal(w, "the last of a batch", a[3], task.Enqueued{Answer: task.Updated, ID: a[0].ID, State: task.Scheduled})
	subs, err := w.s.Tasks.Queues(w.ctx)
	w.check("Queues", err)
	depth := map[task.State]int{}
	for _, l := range subs {
		for state, n := range l.Depth {
			depth[state] += n
		}
	}
	equal(w, "what waits for its instant", depth[task.Scheduled], 1)
	equal(w, "what is available", depth[task.Available], 5)
}

// crossedBatches enqueues the same keys in opposite orders at the same time.
func crossedBatches(w *world) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	processes := []*store.Store{w.s, w.process()}
	for range 5 {
		together(4, func(i int) {
			specs := make([]task.Spec, len(keys))
			for j, k := range keys {
				at := j
				if i%2 == 1 {
					at = len(keys) - 1 - j
				}
				specs[at] = unique(k, task.UntilFinished)
				_ = specs[at].Check()
			}
			if _, err := processes[i%2].Queue.Enqueue(w.ctx, specs); err != nil {
				w.Errorf("Enqueue: %v", err)
			}
		})
		all := w.tasks(driver.Filter{States: []task.State{task.Available}})
		equal(w, "tasks", len(all), len(keys))
		for _, t := range all {
			w.acted(driver.OpDiscard, t.ID, driver.Done)
		}
	}
}

func uniqueIdentity(w *world) {
	of := func(q, kind string, shared bool) task.Spec {
		return task.Spec{Queue: q, Kind: kind, Unique: &task.Unique{Key: "u", Shared: shared}}
	}
	a, b := w.add1(of("q", "a", false)), w.add1(of("q", "b", false))
	shared := w.add1(of("q", "a", true))
	w.duplicate(of("elsewhere", "a", false), a, task.Available)
	w.duplicate(of("elsewhere", "b", false), b, task.Available)
	w.duplicate(of("elsewhere", "c", true), shared, task.Available)
	w.duplicate(of("q", "b", true), shared, task.Available)
	// A move takes the key along.
	w.act(driver.OpRequest{Operation: driver.OpMove, IDs: []task.ID{a}, Queue: "moved"})
	w.duplicate(of("q", "a", false), a, task.Available)
	// A limit's key of the same name is another thing.
	l := task.Spec{Queue: "q", Kind: "c", Limit: &task.Limit{Key: "u", Shared: true}}
	w.add(l, l)
	// Nor can parts run into each other.
	w.add(task.Spec{Queue: "q", Kind: "x", Unique: &task.Unique{Key: "yz"}}, task.Spec{Queue: "q", Kind: "xy", Unique: &task.Unique{Key: "z"}})
}

func uniqueKeys(w *world) {
	var specs []task.Spec
	for _, k := range unlike {
		specs = append(specs, unique(string(k), task.UntilFinished))
	}
	byKey := w.add(specs...)
	for i, a := range w.enqueue(w.s, specs...) {
		equal(w, "Enqueue again of "+string(unlike[i]), a, task.Enqueued{Answer: task.Duplicate, ID: byKey[i], State: task.Available})
	}
	for i, k := range unlike {
		if got := w.tasks(driver.Filter{Unique: string(k)}); len(got) != 1 || got[0].ID != byKey[i] || got[0].Unique.Key != string(k) {
			w.Errorf("Tasks of key %q: %d", k, len(got))
		}
	}
}

// replacing is unique until started, with again.
func replacing(again task.Again) task.Spec {
	s := unique("u", task.UntilStarted)
	s.Unique.Again = again
	return s
}

func replaceWaiting(w *world) {
	worker := w.worker(w.s)
	s := replacing(task.Replace)
	s.Args, s.Tags, s.Priority = json.RawMessage(`{"v":1}`), []string{"one"}, 1
	id, between := w.add1(s), w.add1(some())
	s.Args, s.Tags, s.Priority = json.RawMessage(`{"v":2}`), []string{"two", "2"}, 0
	equal(w, "Enqueue again", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: id, State: task.Available})
	t := w.task(id)
	w.sameJSON("arguments", t.Args, s.Args)
	equal(w, "priority", t.Priority, 0)
	equal(w, "tags", len(t.Tags) == 2 && t.Tags[0] == "two", true)
	equal(w, "tasks of the old tag", len(w.tasks(driver.Filter{Tag: "one"})), 0)
	equal(w, "tasks of the new tag", len(w.tasks(driver.Filter{Tag: "two"})), 1)
	equal(w, "tasks", len(w.tasks(driver.Filter{})), 2)

	s.Delay = time.Hour
	equal(w, "Enqueue for later", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: id, State: task.Scheduled})
	w.done(worker, w.fetch1(worker, between).Ref, driver.Return)
	s.Delay, s.Args = 0, json.RawMessage(`3`)
	equal(w, "Enqueue for now", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: id, State: task.Available})
	got := w.fetches("it kept its place", worker, 10, id, between)
	w.sameJSON("the arguments that are fetched", got[0].Args, s.Args)

	// A refusing one of the same key replaces nothing.
	s = unique("r", task.UntilStarted)
	s.Args = json.RawMessage(`1`)
	first := w.add1(s)
	s.Args = json.RawMessage(`2`)
	w.duplicate(s, first, task.Available)
	w.sameJSON("arguments after a refusal", w.task(first).Args, json.RawMessage(`1`))
}

// replaceStarted: the worker has the old arguments from its fetch on, so newer ones must not be written where
// nobody reads them.
func replaceStarted(w *world) {
	worker := w.worker(w.s)
	s := replacing(task.Replace)
	s.Args = json.RawMessage(`1`)
	id := w.add1(s)
	f := w.fetch1(worker, id)
	s.Args = json.RawMessage(`2`)
	second := w.add1(s)
	s.Args = json.RawMessage(`3`)
	equal(w, "a third one", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: second, State: task.Available})
	equal(w, "Start of the first", w.begin(worker, f.Ref), driver.OK)
	equal(w, "after its start", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: second, State: task.Available})
	w.sameJSON("arguments of the first", w.task(id).Args, json.RawMessage(`1`))
	w.done(worker, f.Ref, driver.Success)
	f = w.fetch1(worker, second)
	w.sameJSON("arguments of the second", f.Args, s.Args)
}

// replaceHeld: how long a key is held is said by the task that holds it, and not by who comes later (promise 17).
func replaceHeld(w *world) {
	worker := w.worker(w.s)
	first := unique("u", task.UntilFinished)
	first.Unique.Window = time.Hour
	id := w.add1(first)
	f := w.fetch1(worker, id)
	later := []task.Spec{replacing(task.Replace), replacing(task.Debounce)}
	later[1].Delay = time.Hour
	held := func(state task.State) {
		w.Helper()
		for _, s := range later {
			w.duplicate(s, id, state)
		}
		w.duplicate(first, id, state)
	}
	held(task.Running)
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	held(task.Running)
	w.done(worker, f.Ref, driver.Success)
	held(task.Succeeded)
	equal(w, "tasks", len(w.tasks(driver.Filter{})), 1)
}

func debounce(w *world) {
	s := replacing(task.Debounce)
	s.Delay, s.Unique.MaxWait = time.Hour, 90*time.Minute
	id := w.add1(s)
	first := w.task(id)
	equal(w, "state", first.State, task.Scheduled)
	between(w, "run at", first.Enqueued.Add(s.Delay), first.RunAt, w.now(w.s).Add(s.Delay))
	w.past(5 * time.Millisecond)
	before := w.now(w.s)
	s.Args = json.RawMessage(`2`)
	equal(w, "Enqueue again", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Updated, ID: id, State: task.Scheduled})
	second := w.task(id)
	between(w, "run at, put off", before.Add(s.Delay), second.RunAt, w.now(w.s).Add(s.Delay))
	sameTime(w, "enqueued", second.Enqueued, first.Enqueued)
	w.sameJSON("arguments", second.Args, s.Args)
	s.Delay = 24 * time.Hour
	w.enqueue(w.s, s)
	sameTime(w, "run at, at the longest", w.task(id).RunAt, first.Enqueued.Add(s.Unique.MaxWait))

	// With a wait that is over it is due at once.
	s = replacing(task.Debounce)
	s.Unique.Key, s.Delay, s.Unique.MaxWait = "short", time.Hour, 20*time.Millisecond
	id = w.add1(s)
	w.until(w.task(id).Enqueued.Add(s.Unique.MaxWait))
	w.enqueue(w.s, s)
	f := w.fetchWith(w.s, driver.FetchRequest{Worker: w.worker(w.s)})
	w.order("Fetch after the longest wait", ids(f.Tasks), []task.ID{id})
}

// replaceTogether replaces from many sides: one task stays, with arguments that somebody gave last.
func replaceTogether(w *world) {
	processes := []*store.Store{w.s, w.process()}
	id := w.add1(replacing(task.Replace))
	together(16, func(i int) {
		s := replacing(task.Replace)
		s.Args = json.RawMessage(`"x"`)
		_ = s.Check()
		a, err := processes[i%2].Queue.Enqueue(w.ctx, []task.Spec{s})
		if err != nil || len(a) != 1 || a[0].Answer != task.Updated || a[0].ID != id {
			w.Errorf("Enqueue: %+v, %v", a, err)
		}
	})
	equal(w, "tasks", len(w.tasks(driver.Filter{})), 1)
	w.sameJSON("arguments", w.task(id).Args, json.RawMessage(`"x"`))
}
