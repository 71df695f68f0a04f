package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

var actPromises = []promise{
	{"a manual retry runs a final task anew, with its history", actRetry},
	// Holds: promise 23.
	{"a manual retry takes the unique key again, or is a duplicate", actRetryUnique},
	{"a manual retry within a window is its own holder's", actRetryWindow},
	{"cancel ends what waits and asks what runs", actCancel},
	{"one that is asked to stop is not tried again, whatever becomes of its run", actCancelHolds},
	{"promote moves to the front, and makes due", actPromote},
	{"a move takes everything along", actMove},
	// Holds: promise 23.
	{"what is moved while it is fetched is fetched where it was, or is moved", actMoveRace},
	{"an edit changes priority and instant", actEdit},
	{"discard ends what waits, and delete removes what has ended", actDiscard},
	// Holds: promise 23.
	{"acts are answered one by one, and only where they apply", actAnswers},
	// Holds: promise 23.
	{"what has changed since it was selected is left alone", actChanged},
	// Holds: promise 23.
	{"every act is an event, with who and why", actEvents},
	// Holds: promise 23.
	{"of acts that come at once, one is done", actTogether},
}

func actRetry(w *world) {
	all := w.finals(some())
	canceled := w.add1(some())
	w.acted(driver.OpCancel, canceled, driver.Done)
	for _, id := range append([]task.ID{canceled}, all[task.Succeeded], all[task.Failed], all[task.Discarded], all[task.Canceled], all[task.Crashed]) {
		before := w.task(id)
		from := w.now(w.s)
		a := w.act1(driver.OpRetry, id)
		equal(w, "retry", a, driver.OpResult{ID: id, Answer: driver.Done, State: task.Available})
		t := w.task(id)
		what := "of one that was " + string(before.State)
		equal(w, "state "+what, t.State, task.Available)
		equal(w, "attempts "+what, t.Attempts, before.Attempts)
		equal(w, "granted "+what, t.Granted, before.Attempts)
		equal(w, "crashes and snoozes "+what, t.Crashes+t.Snoozes, 0)
		equal(w, "history "+what, len(t.History), len(before.History))
		equal(w, "reason "+what, t.Reason, "")
		equal(w, "end "+what+" is zero", t.Ended.IsZero(), true)
		between(w, "run at "+what, from, t.RunAt, w.now(w.s))
		sameTime(w, "enqueued "+what, t.Enqueued, before.Enqueued)
		worker := w.worker(w.s)
		f := w.fetch1(worker, id)
		equal(w, "attempts that the worker is told "+what, f.Attempts, before.Attempts)
		equal(w, "granted that the worker is told "+what, f.Granted, before.Attempts)
		equal(w, "a larger token "+what, f.Token > before.Token, true)
		w.done(worker, f.Ref, driver.Success)
		equal(w, "attempts at the end "+what, w.task(id).Attempts, before.Attempts+1)
	}

	// One that waits for its next attempt need not wait any longer.
	worker := w.worker(w.s)
	id := w.add1(some())
	c := w.ended(w.fetch1(worker, id).Ref, driver.Retry)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	w.acted(driver.OpRetry, id, driver.Done)
	f := w.fetch1(worker, id)
	equal(w, "granted", f.Granted, 1)

	// One that expired is wanted after all.
	expired := some()
	expired.ExpiresAt = w.now(w.s).Add(10 * time.Millisecond)
	id = w.add1(expired)
	w.until(expired.ExpiresAt)
	w.maintain()
	w.acted(driver.OpRetry, id, driver.Done)
	w.maintain()
	w.fetch1(worker, id)
}

func actRetryUnique(w *world) {
	worker := w.worker(w.s)
	for _, until := range []task.Until{task.UntilFinished, task.UntilStarted} {
		s := unique("u-"+string(until), until)
		end := func(id task.ID, v driver.Verdict) {
			w.Helper()
			f := w.fetch1(worker, id)
			equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
			w.done(worker, f.Ref, v)
		}
		first := w.add1(s)
		end(first, driver.Fail)
		second := w.add1(s)
		equal(w, "retry while another holds the key", w.act1(driver.OpRetry, first), driver.OpResult{ID: first, Answer: driver.Taken, State: task.Failed, Other: second})
		w.state("it", first, task.Failed, "")
		end(second, driver.Success)
		w.acted(driver.OpRetry, first, driver.Done)
		w.duplicate(s, first, task.Available)
		equal(w, "retry of the second", w.act1(driver.OpRetry, second), driver.OpResult{ID: second, Answer: driver.Taken, State: task.Succeeded, Other: first})
		// Of two in one call, the first gets the key.
		end(first, driver.Fail)
		a := w.act(driver.OpRequest{Operation: driver.OpRetry, IDs: []task.ID{second, first}})
		equal(w, "the first of a call", a[0].Answer, driver.Done)
		equal(w, "the second of a call", a[1], driver.OpResult{ID: first, Answer: driver.Taken, State: task.Failed, Other: second})
		w.acted(driver.OpDiscard, second, driver.Done)
	}
}

func actRetryWindow(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	s.Unique.Window = time.Hour
	id := w.add1(s)
	w.done(worker, w.fetch1(worker, id).Ref, driver.Success)
	w.duplicate(s, id, task.Succeeded)
	w.acted(driver.OpRetry, id, driver.Done)
	w.duplicate(s, id, task.Available)
	w.done(worker, w.fetch1(worker, id).Ref, driver.Fail)
	second := w.add1(s) // a failure has no window, and the first one's is over
	w.done(worker, w.fetch1(worker, second).Ref, driver.Success)
	equal(w, "retry of the first, within the window of the second", w.act1(driver.OpRetry, id),
		driver.OpResult{ID: id, Answer: driver.Taken, State: task.Failed, Other: second})
	w.acted(driver.OpDelete, second, driver.Done) // its window with it
	w.acted(driver.OpRetry, id, driver.Done)
}

// waiting are one task of every waiting state, each behind its own key, and who must end for the blocked one.
func (w *world) waiting() (all map[task.State]task.ID) {
	w.Helper()
	worker := w.worker(w.s)
	later := unique("scheduled", task.UntilFinished)
	later.Delay = time.Hour
	retry := w.add1(unique("retryable", task.UntilFinished))
	c := w.ended(w.fetch1(worker, retry).Ref, driver.Retry)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	w.fetch1(worker, w.add1(limited("l", 1)))
	behind := unique("blocked", task.UntilFinished)
	behind.Limit = &task.Limit{Key: "l"}
	blocked := w.add1(behind)
	w.fetches("behind the limit", worker, 10)
	all = map[task.State]task.ID{task.Scheduled: w.add1(later), task.Retryable: retry, task.Blocked: blocked,
		task.Available: w.add1(unique("available", task.UntilFinished))}
	for s, id := range all {
		equal(w, "a task that waits", w.task(id).State, s)
	}
	return all
}

// over ends every task of waiting by act, and checks that its key is free.
func (w *world) over(act driver.Operation, want task.State) {
	w.Helper()
	for s, id := range w.waiting() {
		a := w.act1(act, id)
		equal(w, fmt.Sprintf("%s of one that is %s", act, s), a, driver.OpResult{ID: id, Answer: driver.Done, State: want})
		w.state(string(act), id, want, task.ReasonOperator)
		equal(w, "it has an end", w.task(id).Ended.IsZero(), false)
		w.add1(unique(string(s), task.UntilFinished))
	}
}

func actCancel(w *world) {
	w.over(driver.OpCancel, task.Canceled)
	worker := w.worker(w.s)
	id := w.add1(task.Spec{Queue: "r", Kind: "k"})
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"r"}}).Tasks
	w.order("Fetch", ids(got), []task.ID{id})
	equal(w, "cancel of a running one", w.act1(driver.OpCancel, id), driver.OpResult{ID: id, Answer: driver.Asking, State: task.Running})
	equal(w, "cancel again", w.act1(driver.OpCancel, id).Answer, driver.Asking)
	equal(w, "why it is to stop", w.task(id).Stop, task.ReasonOperator)
	// What is done is done, although it was asked to stop; and the request ends with the run.
	w.done(worker, got[0].Ref, driver.Success)
	w.state("one that was done all the same", id, task.Succeeded, "")
	equal(w, "why it is to stop, after its run", w.task(id).Stop, "")
}

// asked is a task of queue "r" that a worker has, and that somebody asks to stop.
func (w *world) asked(worker lease.Ref, s task.Spec) driver.Fetched {
	w.Helper()
	s.Queue = "r"
	id := w.add1(s)
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"r"}, Suspects: true, Crashers: true}).Tasks
	w.order("Fetch", ids(got), []task.ID{id})
	w.acted(driver.OpCancel, id, driver.Asking)
	return got[0]
}

// Its worker may not have heard of the request before it reports, or dies: the task ends all the same.
func actCancelHolds(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	s.Limit = &task.Limit{Key: "l"}
	for _, v := range []driver.Verdict{driver.Retry, driver.Snooze, driver.Return} {
		f := w.asked(worker, s)
		behind := w.add1(limited("l", 1))
		c := w.ended(f.Ref, v)
		c.Delay = time.Hour
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		t := w.task(f.ID)
		w.state("one asked to stop, whose run ended "+c.Outcome, f.ID, task.Canceled, task.ReasonOperator)
		equal(w, "it has an end", t.Ended.IsZero(), false)
		equal(w, "why it is to stop, after its run", t.Stop, "")
		equal(w, "its history", len(t.History), 1)
		if v == driver.Retry {
			equal(w, "its attempts", t.Attempts, 1)
		}
		w.done(worker, w.fetch1(worker, behind).Ref, driver.Success)
		equal(w, "Finish, repeated", w.finish(worker, c), driver.OK)
	}
	f := w.asked(worker, s)
	left := w.asked(w.worker(w.s), unique("other", task.UntilFinished))
	w.check("Leave", w.s.Queue.Deregister(w.ctx, w.task(left.ID).Worker.Lease))
	w.state("one asked to stop, whose worker left", left.ID, task.Canceled, task.ReasonOperator)
	behind := w.add1(limited("l", 1))
	equal(w, "rescued", w.dies(worker).Rescued, 1)
	w.state("one asked to stop, whose worker died", f.ID, task.Canceled, task.ReasonOperator)
	equal(w, "crashes", w.task(f.ID).Crashes, 0)
	worker = w.worker(w.s)
	w.fetch1(worker, behind)
	w.asked(worker, unique("other", task.UntilFinished)) // the keys are free
	w.acted(driver.OpRetry, f.ID, driver.Done)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

func actPromote(w *world) {
	for s, id := range w.waiting() {
		from := w.now(w.s)
		equal(w, "promote of one that is "+string(s), w.act1(driver.OpPromote, id).Answer, driver.Done)
		t := w.task(id)
		equal(w, "it is at the front", t.Front, true)
		want := task.Available
		if s == task.Blocked {
			want = task.Blocked // there is no slot for it
		}
		equal(w, "its state", t.State, want)
		equal(w, "it is due", t.RunAt.After(w.now(w.s)), false)
		if s == task.Scheduled {
			between(w, "run at", from, t.RunAt, w.now(w.s))
		}
		equal(w, "attempts", t.Attempts, map[bool]int{true: 1}[s == task.Retryable])
		w.act1(driver.OpDiscard, id)
	}
	first := some()
	first.Priority = task.MaxPriority
	worker, high, low := w.worker(w.s), w.add1(first), w.add1(some())
	w.acted(driver.OpPromote, low, driver.Done)
	w.fetches("the promoted one is before", worker, 10, low, high)
}

func actMove(w *world) {
	all := w.waiting()
	for s, id := range all {
		a := w.act(driver.OpRequest{Operation: driver.OpMove, IDs: []task.ID{id}, Queue: "there"})[0]
		equal(w, "move of one that is "+string(s), a, driver.OpResult{ID: id, Answer: driver.Done, State: s})
		equal(w, "its queue", w.task(id).Queue, "there")
		w.duplicate(unique(string(s), task.UntilFinished), id, s)
	}
	worker := w.worker(w.s)
	w.fetches("what is left in the old queue", worker, 10)
	there := func(want ...task.ID) {
		w.Helper()
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"there"}})
		w.order("Fetch there", ids(got.Tasks), want)
	}
	there(all[task.Available])
	holder := w.tasks(driver.Filter{Limit: "l", States: []task.State{task.Running}})
	if len(holder) != 1 {
		w.Fatalf("%d tasks hold the limit", len(holder))
	}
	w.done(holder[0].Worker.Lease, driver.Ref{ID: holder[0].ID, Token: holder[0].Token}, driver.Success)
	there(all[task.Blocked])
}

func actEdit(w *world) {
	worker := w.worker(w.s)
	priority, later, now := 7, w.now(w.s).Add(time.Hour).Truncate(time.Second), w.now(w.s)
	edit := func(id task.ID, e driver.Edit) driver.OpResult {
		w.Helper()
		return w.act(driver.OpRequest{Operation: driver.OpEdit, IDs: []task.ID{id}, Edit: e})[0]
	}
	for s, id := range w.waiting() {
		before := w.task(id)
		equal(w, "edit of the priority of one that is "+string(s), edit(id, driver.Edit{Priority: &priority}), driver.OpResult{ID: id, Answer: driver.Done, State: s})
		t := w.task(id)
		equal(w, "its priority", t.Priority, priority)
		sameTime(w, "its instant", t.RunAt, before.RunAt)
		w.act1(driver.OpDiscard, id)
	}
	all := w.add(some(), some(), some())
	edit(all[2], driver.Edit{Priority: &priority})
	a := edit(all[0], driver.Edit{RunAt: &later})
	equal(w, "an edit for later", a, driver.OpResult{ID: all[0], Answer: driver.Done, State: task.Scheduled})
	sameTime(w, "its instant", w.task(all[0]).RunAt, later)
	got := w.fetches("by the new priorities and instants", worker, 10, all[2], all[1])
	equal(w, "an edit for now", edit(all[0], driver.Edit{RunAt: &now}).Answer, driver.Done)
	w.fetches("by the newest instant", worker, 10, all[0])
	equal(w, "edit of a running one", edit(got[0].ID, driver.Edit{Priority: &priority}).Answer, driver.Unfit)
}

func actDiscard(w *world) {
	for _, id := range w.finals(some()) {
		w.acted(driver.OpDelete, id, driver.Done)
		_, _, ok := w.find(id)
		equal(w, "a deleted task is there", ok, false)
		w.acted(driver.OpDelete, id, driver.NotThere)
	}
	w.over(driver.OpDiscard, task.Discarded)
}

func actAnswers(w *world) {
	final := w.finals(some())
	worker := w.worker(w.s)
	running := w.fetch1(worker, w.add1(some())).ID
	all := w.waiting()
	available, blocked := all[task.Available], all[task.Blocked]
	unfit := map[driver.Operation][]task.ID{
		driver.OpRetry:   {running, available, blocked, all[task.Scheduled]},
		driver.OpCancel:  {final[task.Succeeded], final[task.Crashed]},
		driver.OpPromote: {running, final[task.Failed]},
		driver.OpDiscard: {running, final[task.Discarded]},
		driver.OpMove:    {running, final[task.Canceled]},
		driver.OpEdit:    {running, final[task.Succeeded]},
		driver.OpDelete:  {running, available, blocked, all[task.Retryable]},
	}
	events := len(w.happened("task-retry"))
	for act, tasks := range unfit {
		tasks = append(tasks, 1<<40)
		for i, a := range w.act(driver.OpRequest{Operation: act, IDs: tasks, Queue: "elsewhere"}) {
			want := driver.OpResult{ID: tasks[i], Answer: driver.Unfit}
			if tasks[i] == 1<<40 {
				want.Answer = driver.NotThere
			} else {
				t := w.task(tasks[i])
				want.State = t.State
				equal(w, "its queue after "+string(act), t.Queue, "q")
			}
			equal(w, string(act), a, want)
		}
	}
	equal(w, "events of a retry that did nothing", len(w.happened("task-retry")), events)
	a := w.act(driver.OpRequest{Operation: driver.OpDiscard, IDs: []task.ID{running, available, 1 << 40, blocked}})
	for i, want := range []driver.OpAnswer{driver.Unfit, driver.Done, driver.NotThere, driver.Done} {
		equal(w, "an item of a batch", a[i].Answer, want)
	}
}

// meddled is an Admin beside which somebody else acts on what a Bulk has selected.
type meddled struct {
	driver.Admin
	meddle func()
}

func (m meddled) Tasks(ctx context.Context, f driver.Filter) ([]driver.Task, error) {
	tasks, err := m.Admin.Tasks(ctx, f)
	m.meddle()
	return tasks, err
}

func actChanged(w *world) {
	ids := w.add(some(), some(), some())
	once := sync.OnceFunc(func() {
		w.act(driver.OpRequest{Operation: driver.OpMove, IDs: ids[:1], Queue: "elsewhere"})
		w.act(driver.OpRequest{Operation: driver.OpCancel, IDs: ids[1:2]})
	})
	b := queue.Bulk{Admin: meddled{w.s.Tasks, once}, Filter: driver.Filter{Queue: "q", States: task.Waits(true)},
		Action: driver.OpRequest{Operation: driver.OpDiscard}}
	p, err := b.Do(w.Context(), 0, nil)
	if err != nil {
		w.Fatal(err)
	}
	equal(w, "those that were discarded", p.Answers[driver.Done], 1)
	equal(w, "those that were left alone", p.Answers[driver.Changed], 2)
	for i, want := range []task.State{task.Available, task.Canceled, task.Discarded} {
		equal(w, "state", w.task(ids[i]).State, want)
	}

	// A state is what is told of a task, however many a store makes of it.
	all := w.waiting()
	for state, id := range all {
		for _, other := range task.States {
			if other != state {
				a := w.act(driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, From: "q", States: []task.State{other}})
				equal(w, "act on one that is "+string(state)+", if it is "+string(other), a[0], driver.OpResult{ID: id, Answer: driver.Changed, State: state})
			}
		}
		a := w.act(driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, From: "nowhere"})
		equal(w, "act on one in another queue", a[0].Answer, driver.Changed)
		a = w.act(driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, From: "q", States: []task.State{task.Failed, state}})
		equal(w, "act on one that is "+string(state), a[0].Answer, driver.Done)
	}
	a := w.act(driver.OpRequest{Operation: driver.OpRetry, IDs: []task.ID{1 << 40}, From: "q"})
	equal(w, "act on none", a[0].Answer, driver.NotThere)
}

func actEvents(w *world) {
	all := w.add(some(), some(), some())
	five := 5
	for _, a := range []driver.OpRequest{
		{Operation: driver.OpPromote, IDs: all[:1]}, {Operation: driver.OpMove, IDs: all[:2], Queue: "there"}, {Operation: driver.OpEdit, IDs: all[1:2], Edit: driver.Edit{Priority: &five}},
		{Operation: driver.OpCancel, IDs: all[:1]}, {Operation: driver.OpDiscard, IDs: append(all[1:3:3], 1<<40)}, {Operation: driver.OpRetry, IDs: all[:2]},
		{Operation: driver.OpDiscard, IDs: all[:1]}, {Operation: driver.OpDelete, IDs: all[:1]},
	} {
		a.By, a.Why = "me ß", "because of \"x\""
		var done []task.ID
		for _, answer := range w.act(a) {
			if answer.Answer == driver.Done {
				done = append(done, answer.ID)
			}
		}
		kind, reason := a.Event(done)
		got := w.happened(kind)
		if len(got) == 0 || got[0].Reason != reason {
			w.Errorf("event of %s: got %+v, want the newest to be %q", a.Operation, got, reason)
		}
		equal(w, "it says who and why", strings.HasSuffix(reason, ` by me ß: because of "x"`), true)
	}
	running := w.fetch1(w.worker(w.s), w.add1(some()))
	w.acted(driver.OpCancel, running.ID, driver.Asking)
	equal(w, "events of cancels", len(w.happened("task-cancel")), 2)
}

// actTogether ends tasks from two sides while a worker takes them: each gets one end.
func actTogether(w *world) {
	const n = 60
	var specs []task.Spec
	for i := range n {
		specs = append(specs, limited(fmt.Sprint("l", i%7), 1))
	}
	all := w.add(specs...)
	processes := []*store.Store{w.s, w.process()}
	worker := w.worker(w.s)
	var done, asked, worked atomic.Int64
	together(5, func(i int) {
		if i == 4 {
			for range 10 {
				f, err := w.s.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 3})
				if err != nil {
					w.Errorf("Fetch: %v", err)
				}
				for _, t := range f.Tasks {
					answers, err := finish(w.ctx, w.s, worker, []driver.Completion{{Ref: t.Ref, Verdict: driver.Success}})
					if err != nil || answers[0] != driver.OK {
						w.Errorf("Finish: %v, %v", answers, err)
					}
					worked.Add(1)
				}
			}
			return
		}
		for at := 0; at < n; at += 10 {
			answers, err := processes[i%2].Tasks.Operate(w.ctx, driver.OpRequest{Operation: []driver.Operation{driver.OpCancel, driver.OpDiscard}[i/2], IDs: all[at : at+10]})
			if err != nil {
				w.Errorf("Act: %v", err)
			}
			for _, a := range answers {
				switch a.Answer {
				case driver.Done:
					done.Add(1)
				case driver.Asking:
					asked.Add(1)
				}
			}
		}
	})
	// Whatever was busy for another is ended now.
	for _, a := range w.act(driver.OpRequest{Operation: driver.OpDiscard, IDs: all}) {
		if a.Answer == driver.Done {
			done.Add(1)
		}
	}
	equal(w, "ends", int(done.Load()+worked.Load()), n)
	for _, t := range w.tasks(driver.Filter{Max: n}) {
		equal(w, "state", t.State.Final(), true)
	}
	equal(w, "repairs", w.maintain().Repaired, 0)
}

// The fetches of one queue and a move out of it share its tasks: none is moved and given to a worker of the old queue.
func actMoveRace(w *world) {
	worker := w.worker(w.s)
	for range 8 {
		var specs []task.Spec
		for i := range 40 {
			s := some()
			if i%4 == 0 {
				s = limited(fmt.Sprint("l", i), 1)
			}
			specs = append(specs, s)
		}
		ids := w.add(specs...)
		moved := map[task.ID]bool{}
		var acts sync.WaitGroup
		acts.Go(func() {
			for part := range slices.Chunk(ids, 5) {
				answers, err := w.s.Tasks.Operate(w.ctx, driver.OpRequest{Operation: driver.OpMove, IDs: part, Queue: "elsewhere"})
				if err != nil {
					w.Errorf("Act: %v", err)
				}
				for _, a := range answers {
					moved[a.ID] = a.Answer == driver.Done
				}
			}
		})
		var got []driver.Fetched
		for range 8 {
			got = append(got, w.fetch(worker, 6)...)
		}
		acts.Wait()
		for _, f := range got {
			if f.Queue != "q" || moved[f.ID] {
				w.Errorf("task %d was moved (%v), and given to a worker of the queue where it had been: %+v", f.ID, moved[f.ID], f)
			}
			w.done(worker, f.Ref, driver.Success)
		}
		for _, f := range w.fetch(worker, 100) { // what nobody has met
			w.done(worker, f.Ref, driver.Success)
		}
	}
}
