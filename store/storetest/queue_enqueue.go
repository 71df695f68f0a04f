package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

var enqueuePromises = []promise{
	{"a task is enqueued, fetched, and succeeds", oneTask},
	// Holds: promise 16.
	{"a batch is answered item by item", enqueueBatch},
	{"a thousand tasks travel in one call", thousand},
	{"a task comes back as it was enqueued", taskRoundTrip},
	{"arguments come back as the same JSON", argsRoundTrip},
	{"queues, kinds and tags are compared byte by byte", taskNames},
	{"queues of namespaces are apart", queuesApart},
	{"an enqueue whose context has ended takes nothing in", enqueueEnded},
	// Holds: promise 16.
	{"nothing that was acknowledged is lost under many enqueuers", manyEnqueuers},
	{"a queue may share its namespace with jobs whose ticks are under way", tasksBesideTicks},
}

func oneTask(w *world) {
	before := w.now(w.s)
	a := w.enqueue(w.s, some())[0]
	equal(w, "the answer", a.Answer, task.New)
	equal(w, "its state", a.State, task.Available)
	t := w.task(a.ID)
	between(w, "enqueued", before, t.Enqueued, w.now(w.s))
	between(w, "when it became due", before, t.RunAt, w.now(w.s))
	equal(w, "state", t.State, task.Available)
	worker := w.worker(w.s)
	f := w.fetch1(worker, a.ID)
	t = w.task(a.ID)
	equal(w, "state when fetched", t.State, task.Running)
	equal(w, "token", t.Token, f.Token)
	equal(w, "worker", t.Worker.Lease, worker)
	between(w, "started", t.Enqueued, t.Started, w.now(w.s))
	equal(w, "what a second fetch finds", len(w.fetch(worker, 10)), 0)
	w.done(worker, f.Ref, driver.Success)
	t = w.task(a.ID)
	equal(w, "state at the end", t.State, task.Succeeded)
	equal(w, "attempts", t.Attempts, 1)
	between(w, "ended", t.Started, t.Ended, w.now(w.s))
	equal(w, "what is left to fetch", len(w.fetch(worker, 10)), 0)
}

// tasksBesideTicks: a tick that enqueues a task is under way while the task is taken in, and mostly when it is
// worked off.
func tasksBesideTicks(w *world) {
	if w.s.Ticks == nil {
		return
	}
	server := w.server(w.s)
	w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(0), Lease: server})
	oneTask(w)
	worker := w.worker(w.s)
	limit := some()
	limit.Limit = &task.Limit{Key: "l"}
	ids := w.add(keyed("u", ""), limit, limit)
	w.duplicate(keyed("u", ""), ids[0], task.Available)
	equal(w, "unfinished tasks", len(w.tasks(driver.Filter{States: []task.State{task.Available, task.Blocked}})), 3)
	w.acted(driver.OpCancel, ids[0], driver.Done)
	w.done(worker, w.fetch1(worker, ids[1]).Ref, driver.Success)
	w.done(worker, w.fetch1(worker, ids[2]).Ref, driver.Success)
	w.maintain()
	equal(w, "unfinished tasks at the end", len(w.tasks(driver.Filter{States: []task.State{task.Available, task.Blocked, task.Running}})), 0)
	row := w.row("j", w.at(0))
	equal(w, "the tick's state", row.State, tick.Claimed)
	equal(w, "the tick's lease", row.Lease, server)
}

func enqueueBatch(w *world) {
	var specs []task.Spec
	for i := range 50 {
		s := some()
		s.Kind, s.Priority = fmt.Sprintf("k%d", i%7), i%3
		if i%5 == 0 {
			s.Unique = &task.Unique{Key: "the same", Shared: true}
		}
		specs = append(specs, s)
	}
	answers := w.enqueue(w.s, specs...)
	last := task.ID(0)
	for i, a := range answers {
		if i%5 == 0 && i > 0 {
			equal(w, "a duplicate within the batch", a, task.Enqueued{Answer: task.Duplicate, ID: answers[0].ID, State: task.Available})
			continue
		}
		if a.Answer != task.New || a.ID <= last || a.ID >= 1<<53 {
			w.Errorf("item %d: %+v after id %d", i, a, last)
		}
		last = a.ID
		equal(w, "kind of an item", w.task(a.ID).Kind, specs[i].Kind)
	}
	again := w.enqueue(w.process(), some())[0]
	equal(w, "a later id is larger", again.ID > last, true)
	none, err := w.s.Queue.Enqueue(w.ctx, nil)
	w.check("Enqueue of nothing", err)
	equal(w, "answers to nothing", len(none), 0)
}

// thousand is the longest batch that there is, through every call that takes one.
func thousand(w *world) {
	testsize.Counts(w)
	const n = 1000
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = unique(fmt.Sprint("u", i), task.UntilStarted)
		specs[i].Tags = []string{"all", fmt.Sprint("t", i%10)}
		if i%2 == 0 {
			specs[i].Limit = &task.Limit{Key: fmt.Sprint("l", i%100), Max: n}
		}
	}
	all := w.add(specs...)
	for i, a := range w.enqueue(w.s, specs...) {
		equal(w, "Enqueue again", a, task.Enqueued{Answer: task.Duplicate, ID: all[i], State: task.Available})
	}
	high := task.MaxPriority
	for i, a := range w.act(driver.OpRequest{Operation: driver.OpEdit, IDs: all, Edit: driver.Edit{Priority: &high}}) {
		equal(w, "edit", a, driver.OpResult{ID: all[i], Answer: driver.Done, State: task.Available})
	}
	worker := w.worker(w.s)
	got := w.fetches("Fetch", worker, n, all...)
	refs, ends := make([]driver.Ref, n), make([]driver.Completion, n)
	for i, f := range got {
		refs[i] = f.Ref
		ends[i] = driver.Completion{Ref: f.Ref, Verdict: []driver.Verdict{driver.Success, driver.Fail}[i%2], Error: "e"}
	}
	started, err := w.s.Queue.Start(w.ctx, worker, refs)
	w.check("Start", err)
	finished, err := w.s.Queue.Finish(w.ctx, worker, ends)
	w.check("Finish", err)
	if len(started) != n || len(finished) != n {
		w.Fatalf("%d answers to Start, %d to Finish", len(started), len(finished))
	}
	for i := range n {
		if started[i] != driver.OK || finished[i] != driver.OK {
			w.Fatalf("item %d: Start %v, Finish %v", i, started[i], finished[i])
		}
	}
	equal(w, "tasks that succeeded", len(w.tasks(driver.Filter{States: []task.State{task.Succeeded}, Max: n})), n/2)
	for _, a := range w.act(driver.OpRequest{Operation: driver.OpDelete, IDs: all}) {
		equal(w, "delete", a.Answer, driver.Done)
	}
	equal(w, "tasks that are left", len(w.tasks(driver.Filter{})), 0)
}

// full is a spec in which everything that a store keeps is set.
func (w *world) full() task.Spec {
	now := w.now(w.s)
	return task.Spec{Queue: "q", Kind: "k/ä:🐘", Args: json.RawMessage(`{"a;?":[1,"é\"\\,{}"],"b":null}`), Priority: -7,
		RunAt: now.Add(-time.Second), ExpiresAt: now.Add(time.Hour),
		Unique: &task.Unique{Key: "u 🐘'\\;?\"{},", Window: time.Minute},
		Limit:  &task.Limit{Key: "l %_;?", Max: 3, OnContention: task.Displace, Shared: true},
		Options: task.Options{MaxAttempts: 3, RetryUntil: now.Add(2 * time.Hour), Timeout: 7 * time.Second, MaxCrashes: 5, MaxSnoozes: 6,
			Backoff: &task.Backoff{List: []time.Duration{time.Second, time.Minute}, NoJitter: true}, Tags: []string{"a", "ß", "tag:1"}}}
}

// same compares a spec as it came back with what was asked for.
func (w *world) same(where string, got, want task.Spec) {
	w.Helper()
	for _, at := range []struct {
		what      string
		got, want *time.Time
	}{{"run at", &got.RunAt, &want.RunAt}, {"expires at", &got.ExpiresAt, &want.ExpiresAt}, {"retry until", &got.RetryUntil, &want.RetryUntil}} {
		sameTime(w, where+": "+at.what, at.got.UTC(), at.want.Truncate(time.Microsecond))
		*at.got = *at.want
	}
	w.sameJSON(where+": args", got.Args, want.Args)
	got.Args = want.Args
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s: got\n%+v, want\n%+v", where, got, want)
	}
}

func taskRoundTrip(w *world) {
	want := w.full()
	id := w.add1(want)
	w.same("Task", w.task(id).Spec, want)
	listed, err := w.process().Tasks.Tasks(w.ctx, driver.Filter{})
	w.check("Tasks", err)
	if len(listed) != 1 {
		w.Fatalf("Tasks: %d", len(listed))
	}
	w.same("Tasks", listed[0].Spec, want)
	f := w.fetch1(w.worker(w.s), id)
	w.same("Fetch", f.Spec, want)
	sameTime(w, "enqueued", f.Enqueued, w.task(id).Enqueued)

	bare := w.task(w.add1(task.Spec{Queue: "q", Kind: "bare"}))
	w.sameJSON("the default args", bare.Args, json.RawMessage("null"))
	if bare.Unique != nil || bare.Limit != nil || bare.Backoff != nil || len(bare.Tags) != 0 || !bare.ExpiresAt.IsZero() || !bare.RetryUntil.IsZero() ||
		!bare.Started.IsZero() || !bare.Ended.IsZero() || bare.Reason != "" || bare.Stop != "" || bare.Suspect || bare.Front {
		w.Errorf("a bare task has more than it was given: %+v", bare)
	}
}

// sameJSON compares values, with numbers as they are written.
func (w *world) sameJSON(what string, got, want json.RawMessage) {
	w.Helper()
	decode := func(raw json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			w.Errorf("%s: %.100q: %v", what, raw, err)
		}
		return v
	}
	if g := decode(got); !reflect.DeepEqual(g, decode(want)) {
		w.Errorf("%s: got %.200s, want %.200s", what, got, want)
	}
}

func argsRoundTrip(w *world) {
	worker := w.worker(w.s)
	for _, args := range []string{
		`null`, `true`, `""`, `[]`, `{}`, `0`, `-1`, `9007199254740993`, `-9223372036854775808`, `123456789012345678901234567890`,
		`0.1`, `"é e\u0301 日本語 🐘 \ud83d\udc18 \" \\ \/ \n\t"`, `{"ünï":{"deep":[[[[{}]]]]},"":1}`, `["'","%s","$1","?",":a","--",";"]`,
		`[{"b":1,"a":2},{"a":2,"b":1}]`, `"` + strings.Repeat("x", task.MaxArgs-2) + `"`, `"` + strings.Repeat("🐘", task.MaxArgs/4-1) + `"`,
	} {
		s := some()
		s.Args = json.RawMessage(args)
		id := w.add1(s)
		f := w.fetch1(worker, id)
		w.sameJSON("Fetch", f.Args, s.Args)
		w.sameJSON("Task", w.task(id).Args, s.Args)
		w.done(worker, f.Ref, driver.Success)
	}
}

func taskNames(w *world) {
	worker := w.worker(w.s)
	names := []string{"k", "K", "k.", "ß", "ss", "é", "e\u0301", "ı", "i", "I", "İ", "🐘", "'", "%", "_", "*", "a/b", "a:b", "{k}", "NULL", "0", "00",
		strings.Repeat("x", task.MaxName), strings.Repeat("x", task.MaxName-1) + "y"}
	byName := map[string]task.ID{}
	for _, n := range names {
		byName[n] = w.add1(task.Spec{Queue: n, Kind: n, Options: task.Options{Tags: []string{n}}})
	}
	for _, n := range names {
		for what, f := range map[string]driver.Filter{"queue": {Queue: n}, "kind": {Kind: n}, "tag": {Tag: n}} {
			found, err := w.s.Tasks.Tasks(w.ctx, f)
			w.check("Tasks", err)
			if len(found) != 1 || found[0].ID != byName[n] {
				w.Errorf("Tasks of %s %q: %d tasks", what, n, len(found))
			}
		}
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{n}, Kinds: []string{n}})
		w.order(fmt.Sprintf("Fetch of %q", n), ids(got.Tasks), []task.ID{byName[n]})
	}
}

func queuesApart(w *world) {
	beside := *w
	beside.config.Namespace += "x"
	beside.s = beside.prepare()
	mine := w.add1(unique("u", task.UntilFinished))
	equal(w, "tasks there", len(beside.tasks(driver.Filter{})), 0)
	theirs := beside.add1(unique("u", task.UntilFinished)) // the key is free there
	beside.fetch1(beside.worker(beside.s), theirs)
	w.fetch1(w.worker(w.s), mine)
	equal(w, "tasks here", len(w.tasks(driver.Filter{})), 1)
	w.check("Pause", beside.s.Tasks.Pause(w.ctx, driver.Pause{}))
	pauses, err := w.s.Tasks.Pauses(w.ctx)
	w.check("Pauses", err)
	equal(w, "pauses here", len(pauses), 0)
	if got := beside.worker(w.s); len(w.fetch(got, 10)) != 0 {
		w.Error("a task was given twice")
	}
}

func (w *world) tasks(f driver.Filter) []driver.Task {
	w.Helper()
	tasks, err := w.s.Tasks.Tasks(w.ctx, f)
	w.check("Tasks", err)
	return tasks
}

func enqueueEnded(w *world) {
	ended, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.s.Queue.Enqueue(ended, []task.Spec{some()}); err == nil {
		w.Error("it was answered")
	}
	if _, err := w.s.Queue.Fetch(ended, driver.FetchRequest{Worker: w.worker(w.s), Queues: []string{"q"}, Max: 1}); err == nil {
		w.Error("a fetch was answered")
	}
	equal(w, "tasks afterwards", len(w.tasks(driver.Filter{})), 0)
}

func manyEnqueuers(w *world) {
	const callers, calls, batch = 8, 5, 20
	processes := []*store.Store{w.s, w.process(), w.process()}
	acknowledged := make([][]task.ID, callers)
	together(callers, func(i int) {
		for range calls {
			specs := make([]task.Spec, batch)
			for j := range specs {
				specs[j] = some()
				_ = specs[j].Check()
			}
			answers, err := processes[i%len(processes)].Queue.Enqueue(w.ctx, specs)
			if err != nil {
				w.Errorf("Enqueue: %v", err)
				return
			}
			for _, a := range answers {
				acknowledged[i] = append(acknowledged[i], a.ID)
			}
		}
	})
	all := map[task.ID]bool{}
	for _, mine := range acknowledged {
		for _, id := range mine {
			all[id] = true
		}
	}
	equal(w, "distinct ids", len(all), callers*calls*batch)
	worker := w.worker(w.s)
	for range 2 * callers * calls {
		for _, t := range w.fetch(worker, 100) {
			if !all[t.ID] {
				w.Errorf("task %d was fetched twice, or never enqueued", t.ID)
			}
			delete(all, t.ID)
		}
	}
	equal(w, "tasks that no fetch found", len(all), 0)
}
