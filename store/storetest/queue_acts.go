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
	"github.com/dibs-run/dibs/store"
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
	w.acted(queue.ActCancel, canceled, queue.Done)
	for _, id := range append([]queue.ID{canceled}, all[queue.Succeeded], all[queue.Failed], all[queue.Discarded], all[queue.Canceled], all[queue.Crashed]) {
		before := w.task(id)
		from := w.now(w.s)
		a := w.act1(queue.ActRetry, id)
		equal(w, "retry", a, queue.Acted{ID: id, Answer: queue.Done, State: queue.Available})
		t := w.task(id)
		what := "of one that was " + string(before.State)
		equal(w, "state "+what, t.State, queue.Available)
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
		w.done(worker, f.Ref, queue.Success)
		equal(w, "attempts at the end "+what, w.task(id).Attempts, before.Attempts+1)
	}

	// One that waits for its next attempt need not wait any longer.
	worker := w.worker(w.s)
	id := w.add1(some())
	c := w.ended(w.fetch1(worker, id).Ref, queue.Retry)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), queue.OK)
	w.acted(queue.ActRetry, id, queue.Done)
	f := w.fetch1(worker, id)
	equal(w, "granted", f.Granted, 1)

	// One that expired is wanted after all.
	expired := some()
	expired.ExpiresAt = w.now(w.s).Add(10 * time.Millisecond)
	id = w.add1(expired)
	w.until(expired.ExpiresAt)
	w.tend()
	w.acted(queue.ActRetry, id, queue.Done)
	w.tend()
	w.fetch1(worker, id)
}

func actRetryUnique(w *world) {
	worker := w.worker(w.s)
	for _, until := range []queue.Until{queue.UntilFinished, queue.UntilStarted} {
		s := unique("u-"+string(until), until)
		end := func(id queue.ID, v queue.Verdict) {
			w.Helper()
			f := w.fetch1(worker, id)
			equal(w, "Start", w.begin(worker, f.Ref), queue.OK)
			w.done(worker, f.Ref, v)
		}
		first := w.add1(s)
		end(first, queue.Fail)
		second := w.add1(s)
		equal(w, "retry while another holds the key", w.act1(queue.ActRetry, first), queue.Acted{ID: first, Answer: queue.Taken, State: queue.Failed, Other: second})
		w.state("it", first, queue.Failed, "")
		end(second, queue.Success)
		w.acted(queue.ActRetry, first, queue.Done)
		w.duplicate(s, first, queue.Available)
		equal(w, "retry of the second", w.act1(queue.ActRetry, second), queue.Acted{ID: second, Answer: queue.Taken, State: queue.Succeeded, Other: first})
		// Of two in one call, the first gets the key.
		end(first, queue.Fail)
		a := w.act(queue.Action{Act: queue.ActRetry, IDs: []queue.ID{second, first}})
		equal(w, "the first of a call", a[0].Answer, queue.Done)
		equal(w, "the second of a call", a[1], queue.Acted{ID: first, Answer: queue.Taken, State: queue.Failed, Other: second})
		w.acted(queue.ActDiscard, second, queue.Done)
	}
}

func actRetryWindow(w *world) {
	worker := w.worker(w.s)
	s := unique("u", queue.UntilFinished)
	s.Unique.Window = time.Hour
	id := w.add1(s)
	w.done(worker, w.fetch1(worker, id).Ref, queue.Success)
	w.duplicate(s, id, queue.Succeeded)
	w.acted(queue.ActRetry, id, queue.Done)
	w.duplicate(s, id, queue.Available)
	w.done(worker, w.fetch1(worker, id).Ref, queue.Fail)
	second := w.add1(s) // a failure has no window, and the first one's is over
	w.done(worker, w.fetch1(worker, second).Ref, queue.Success)
	equal(w, "retry of the first, within the window of the second", w.act1(queue.ActRetry, id),
		queue.Acted{ID: id, Answer: queue.Taken, State: queue.Failed, Other: second})
	w.acted(queue.ActDelete, second, queue.Done) // its window with it
	w.acted(queue.ActRetry, id, queue.Done)
}

// waiting are one task of every waiting state, each behind its own key, and who must end for the blocked one.
func (w *world) waiting() (all map[queue.State]queue.ID) {
	w.Helper()
	worker := w.worker(w.s)
	later := unique("scheduled", queue.UntilFinished)
	later.Delay = time.Hour
	retry := w.add1(unique("retryable", queue.UntilFinished))
	c := w.ended(w.fetch1(worker, retry).Ref, queue.Retry)
	c.Delay = time.Hour
	equal(w, "Finish", w.finish(worker, c), queue.OK)
	w.fetch1(worker, w.add1(limited("l", 1)))
	behind := unique("blocked", queue.UntilFinished)
	behind.Limit = &queue.Limit{Key: "l"}
	blocked := w.add1(behind)
	w.fetches("behind the limit", worker, 10)
	all = map[queue.State]queue.ID{queue.Scheduled: w.add1(later), queue.Retryable: retry, queue.Blocked: blocked,
		queue.Available: w.add1(unique("available", queue.UntilFinished))}
	for s, id := range all {
		equal(w, "a task that waits", w.task(id).State, s)
	}
	return all
}

// over ends every task of waiting by act, and checks that its key is free.
func (w *world) over(act queue.Act, want queue.State) {
	w.Helper()
	for s, id := range w.waiting() {
		a := w.act1(act, id)
		equal(w, fmt.Sprintf("%s of one that is %s", act, s), a, queue.Acted{ID: id, Answer: queue.Done, State: want})
		w.state(string(act), id, want, queue.ReasonOperator)
		equal(w, "it has an end", w.task(id).Ended.IsZero(), false)
		w.add1(unique(string(s), queue.UntilFinished))
	}
}

func actCancel(w *world) {
	w.over(queue.ActCancel, queue.Canceled)
	worker := w.worker(w.s)
	id := w.add1(queue.Spec{Queue: "r", Kind: "k"})
	got := w.fetchWith(w.s, queue.FetchRequest{Worker: worker, Queues: []string{"r"}}).Tasks
	w.order("Fetch", ids(got), []queue.ID{id})
	equal(w, "cancel of a running one", w.act1(queue.ActCancel, id), queue.Acted{ID: id, Answer: queue.Asking, State: queue.Running})
	equal(w, "cancel again", w.act1(queue.ActCancel, id).Answer, queue.Asking)
	equal(w, "why it is to stop", w.task(id).Stop, queue.ReasonOperator)
	// What is done is done, although it was asked to stop; and the request ends with the run.
	w.done(worker, got[0].Ref, queue.Success)
	w.state("one that was done all the same", id, queue.Succeeded, "")
	equal(w, "why it is to stop, after its run", w.task(id).Stop, "")
}

// asked is a task of queue "r" that a worker has, and that somebody asks to stop.
func (w *world) asked(worker lease.Ref, s queue.Spec) queue.Fetched {
	w.Helper()
	s.Queue = "r"
	id := w.add1(s)
	got := w.fetchWith(w.s, queue.FetchRequest{Worker: worker, Queues: []string{"r"}, Suspects: true, Charged: true}).Tasks
	w.order("Fetch", ids(got), []queue.ID{id})
	w.acted(queue.ActCancel, id, queue.Asking)
	return got[0]
}

// Its worker may not have heard of the request before it reports, or dies: the task ends all the same.
func actCancelHolds(w *world) {
	worker := w.worker(w.s)
	s := unique("u", queue.UntilFinished)
	s.Limit = &queue.Limit{Key: "l"}
	for _, v := range []queue.Verdict{queue.Retry, queue.Snooze, queue.Return} {
		f := w.asked(worker, s)
		behind := w.add1(limited("l", 1))
		c := w.ended(f.Ref, v)
		c.Delay = time.Hour
		equal(w, "Finish", w.finish(worker, c), queue.OK)
		t := w.task(f.ID)
		w.state("one asked to stop, whose run ended "+c.Outcome, f.ID, queue.Canceled, queue.ReasonOperator)
		equal(w, "it has an end", t.Ended.IsZero(), false)
		equal(w, "why it is to stop, after its run", t.Stop, "")
		equal(w, "its history", len(t.History), 1)
		if v == queue.Retry {
			equal(w, "its attempts", t.Attempts, 1)
		}
		w.done(worker, w.fetch1(worker, behind).Ref, queue.Success)
		equal(w, "Finish, repeated", w.finish(worker, c), queue.OK)
	}
	f := w.asked(worker, s)
	left := w.asked(w.worker(w.s), unique("other", queue.UntilFinished))
	w.check("Leave", w.s.Queue.Leave(w.ctx, w.task(left.ID).Worker.Lease))
	w.state("one asked to stop, whose worker left", left.ID, queue.Canceled, queue.ReasonOperator)
	behind := w.add1(limited("l", 1))
	equal(w, "rescued", w.dies(worker).Rescued, 1)
	w.state("one asked to stop, whose worker died", f.ID, queue.Canceled, queue.ReasonOperator)
	equal(w, "crashes", w.task(f.ID).Crashes, 0)
	worker = w.worker(w.s)
	w.fetch1(worker, behind)
	w.asked(worker, unique("other", queue.UntilFinished)) // the keys are free
	w.acted(queue.ActRetry, f.ID, queue.Done)
	equal(w, "repairs", w.tend().Repaired, 0)
}

func actPromote(w *world) {
	for s, id := range w.waiting() {
		from := w.now(w.s)
		equal(w, "promote of one that is "+string(s), w.act1(queue.ActPromote, id).Answer, queue.Done)
		t := w.task(id)
		equal(w, "it is at the front", t.Front, true)
		want := queue.Available
		if s == queue.Blocked {
			want = queue.Blocked // there is no slot for it
		}
		equal(w, "its state", t.State, want)
		equal(w, "it is due", t.RunAt.After(w.now(w.s)), false)
		if s == queue.Scheduled {
			between(w, "run at", from, t.RunAt, w.now(w.s))
		}
		equal(w, "attempts", t.Attempts, map[bool]int{true: 1}[s == queue.Retryable])
		w.act1(queue.ActDiscard, id)
	}
	first := some()
	first.Priority = queue.MaxPriority
	worker, high, low := w.worker(w.s), w.add1(first), w.add1(some())
	w.acted(queue.ActPromote, low, queue.Done)
	w.fetches("the promoted one is before", worker, 10, low, high)
}

func actMove(w *world) {
	all := w.waiting()
	for s, id := range all {
		a := w.act(queue.Action{Act: queue.ActMove, IDs: []queue.ID{id}, Queue: "there"})[0]
		equal(w, "move of one that is "+string(s), a, queue.Acted{ID: id, Answer: queue.Done, State: s})
		equal(w, "its queue", w.task(id).Queue, "there")
		w.duplicate(unique(string(s), queue.UntilFinished), id, s)
	}
	worker := w.worker(w.s)
	w.fetches("what is left in the old queue", worker, 10)
	there := func(want ...queue.ID) {
		w.Helper()
		got := w.fetchWith(w.s, queue.FetchRequest{Worker: worker, Queues: []string{"there"}})
		w.order("Fetch there", ids(got.Tasks), want)
	}
	there(all[queue.Available])
	holder := w.tasks(queue.Filter{Limit: "l", States: []queue.State{queue.Running}})
	if len(holder) != 1 {
		w.Fatalf("%d tasks hold the limit", len(holder))
	}
	w.done(holder[0].Worker.Lease, queue.Ref{ID: holder[0].ID, Token: holder[0].Token}, queue.Success)
	there(all[queue.Blocked])
}

func actEdit(w *world) {
	worker := w.worker(w.s)
	priority, later, now := 7, w.now(w.s).Add(time.Hour).Truncate(time.Second), w.now(w.s)
	edit := func(id queue.ID, e queue.Edit) queue.Acted {
		w.Helper()
		return w.act(queue.Action{Act: queue.ActEdit, IDs: []queue.ID{id}, Edit: e})[0]
	}
	for s, id := range w.waiting() {
		before := w.task(id)
		equal(w, "edit of the priority of one that is "+string(s), edit(id, queue.Edit{Priority: &priority}), queue.Acted{ID: id, Answer: queue.Done, State: s})
		t := w.task(id)
		equal(w, "its priority", t.Priority, priority)
		sameTime(w, "its instant", t.RunAt, before.RunAt)
		w.act1(queue.ActDiscard, id)
	}
	all := w.add(some(), some(), some())
	edit(all[2], queue.Edit{Priority: &priority})
	a := edit(all[0], queue.Edit{RunAt: &later})
	equal(w, "an edit for later", a, queue.Acted{ID: all[0], Answer: queue.Done, State: queue.Scheduled})
	sameTime(w, "its instant", w.task(all[0]).RunAt, later)
	got := w.fetches("by the new priorities and instants", worker, 10, all[2], all[1])
	equal(w, "an edit for now", edit(all[0], queue.Edit{RunAt: &now}).Answer, queue.Done)
	w.fetches("by the newest instant", worker, 10, all[0])
	equal(w, "edit of a running one", edit(got[0].ID, queue.Edit{Priority: &priority}).Answer, queue.Unfit)
}

func actDiscard(w *world) {
	for _, id := range w.finals(some()) {
		w.acted(queue.ActDelete, id, queue.Done)
		_, _, ok := w.find(id)
		equal(w, "a deleted task is there", ok, false)
		w.acted(queue.ActDelete, id, queue.NotThere)
	}
	w.over(queue.ActDiscard, queue.Discarded)
}

func actAnswers(w *world) {
	final := w.finals(some())
	worker := w.worker(w.s)
	running := w.fetch1(worker, w.add1(some())).ID
	all := w.waiting()
	available, blocked := all[queue.Available], all[queue.Blocked]
	unfit := map[queue.Act][]queue.ID{
		queue.ActRetry:   {running, available, blocked, all[queue.Scheduled]},
		queue.ActCancel:  {final[queue.Succeeded], final[queue.Crashed]},
		queue.ActPromote: {running, final[queue.Failed]},
		queue.ActDiscard: {running, final[queue.Discarded]},
		queue.ActMove:    {running, final[queue.Canceled]},
		queue.ActEdit:    {running, final[queue.Succeeded]},
		queue.ActDelete:  {running, available, blocked, all[queue.Retryable]},
	}
	events := len(w.happened("task-retry"))
	for act, tasks := range unfit {
		tasks = append(tasks, 1<<40)
		for i, a := range w.act(queue.Action{Act: act, IDs: tasks, Queue: "elsewhere"}) {
			want := queue.Acted{ID: tasks[i], Answer: queue.Unfit}
			if tasks[i] == 1<<40 {
				want.Answer = queue.NotThere
			} else {
				t := w.task(tasks[i])
				want.State = t.State
				equal(w, "its queue after "+string(act), t.Queue, "q")
			}
			equal(w, string(act), a, want)
		}
	}
	equal(w, "events of a retry that did nothing", len(w.happened("task-retry")), events)
	a := w.act(queue.Action{Act: queue.ActDiscard, IDs: []queue.ID{running, available, 1 << 40, blocked}})
	for i, want := range []queue.ActAnswer{queue.Unfit, queue.Done, queue.NotThere, queue.Done} {
		equal(w, "an item of a batch", a[i].Answer, want)
	}
}

// meddled is an Admin beside which somebody else acts on what a Bulk has selected.
type meddled struct {
	queue.Admin
	meddle func()
}

func (m meddled) Tasks(ctx context.Context, f queue.Filter) ([]queue.Task, error) {
	tasks, err := m.Admin.Tasks(ctx, f)
	m.meddle()
	return tasks, err
}

func actChanged(w *world) {
	ids := w.add(some(), some(), some())
	once := sync.OnceFunc(func() {
		w.act(queue.Action{Act: queue.ActMove, IDs: ids[:1], Queue: "elsewhere"})
		w.act(queue.Action{Act: queue.ActCancel, IDs: ids[1:2]})
	})
	b := queue.Bulk{Admin: meddled{w.s.Tasks, once}, Filter: queue.Filter{Queue: "q", States: queue.Waits(true)},
		Action: queue.Action{Act: queue.ActDiscard}}
	p, err := b.Do(w.Context(), 0, nil)
	if err != nil {
		w.Fatal(err)
	}
	equal(w, "those that were discarded", p.Answers[queue.Done], 1)
	equal(w, "those that were left alone", p.Answers[queue.Changed], 2)
	for i, want := range []queue.State{queue.Available, queue.Canceled, queue.Discarded} {
		equal(w, "state", w.task(ids[i]).State, want)
	}

	// A state is what is told of a task, however many a store makes of it.
	all := w.waiting()
	for state, id := range all {
		for _, other := range queue.States {
			if other != state {
				a := w.act(queue.Action{Act: queue.ActCancel, IDs: []queue.ID{id}, From: "q", States: []queue.State{other}})
				equal(w, "act on one that is "+string(state)+", if it is "+string(other), a[0], queue.Acted{ID: id, Answer: queue.Changed, State: state})
			}
		}
		a := w.act(queue.Action{Act: queue.ActCancel, IDs: []queue.ID{id}, From: "nowhere"})
		equal(w, "act on one in another queue", a[0].Answer, queue.Changed)
		a = w.act(queue.Action{Act: queue.ActCancel, IDs: []queue.ID{id}, From: "q", States: []queue.State{queue.Failed, state}})
		equal(w, "act on one that is "+string(state), a[0].Answer, queue.Done)
	}
	a := w.act(queue.Action{Act: queue.ActRetry, IDs: []queue.ID{1 << 40}, From: "q"})
	equal(w, "act on none", a[0].Answer, queue.NotThere)
}

func actEvents(w *world) {
	all := w.add(some(), some(), some())
	five := 5
	for _, a := range []queue.Action{
		{Act: queue.ActPromote, IDs: all[:1]}, {Act: queue.ActMove, IDs: all[:2], Queue: "there"}, {Act: queue.ActEdit, IDs: all[1:2], Edit: queue.Edit{Priority: &five}},
		{Act: queue.ActCancel, IDs: all[:1]}, {Act: queue.ActDiscard, IDs: append(all[1:3:3], 1<<40)}, {Act: queue.ActRetry, IDs: all[:2]},
		{Act: queue.ActDiscard, IDs: all[:1]}, {Act: queue.ActDelete, IDs: all[:1]},
	} {
		a.By, a.Why = "me ß", "because of \"x\""
		var done []queue.ID
		for _, answer := range w.act(a) {
			if answer.Answer == queue.Done {
				done = append(done, answer.ID)
			}
		}
		kind, reason := a.Event(done)
		got := w.happened(kind)
		if len(got) == 0 || got[0].Reason != reason {
			w.Errorf("event of %s: got %+v, want the newest to be %q", a.Act, got, reason)
		}
		equal(w, "it says who and why", strings.HasSuffix(reason, ` by me ß: because of "x"`), true)
	}
	running := w.fetch1(w.worker(w.s), w.add1(some()))
	w.acted(queue.ActCancel, running.ID, queue.Asking)
	equal(w, "events of cancels", len(w.happened("task-cancel")), 2)
}

// actTogether ends tasks from two sides while a worker takes them: each gets one end.
func actTogether(w *world) {
	const n = 60
	var specs []queue.Spec
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
				f, err := w.s.Queue.Fetch(w.ctx, queue.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 3})
				if err != nil {
					w.Errorf("Fetch: %v", err)
				}
				for _, t := range f.Tasks {
					answers, err := w.s.Queue.Finish(w.ctx, worker, []queue.Completion{{Ref: t.Ref, Verdict: queue.Success}})
					if err != nil || answers[0] != queue.OK {
						w.Errorf("Finish: %v, %v", answers, err)
					}
					worked.Add(1)
				}
			}
			return
		}
		for at := 0; at < n; at += 10 {
			answers, err := processes[i%2].Tasks.Act(w.ctx, queue.Action{Act: []queue.Act{queue.ActCancel, queue.ActDiscard}[i/2], IDs: all[at : at+10]})
			if err != nil {
				w.Errorf("Act: %v", err)
			}
			for _, a := range answers {
				switch a.Answer {
				case queue.Done:
					done.Add(1)
				case queue.Asking:
					asked.Add(1)
				}
			}
		}
	})
	// Whatever was busy for another is ended now.
	for _, a := range w.act(queue.Action{Act: queue.ActDiscard, IDs: all}) {
		if a.Answer == queue.Done {
			done.Add(1)
		}
	}
	equal(w, "ends", int(done.Load()+worked.Load()), n)
	for _, t := range w.tasks(queue.Filter{Max: n}) {
		equal(w, "state", t.State.Final(), true)
	}
	equal(w, "repairs", w.tend().Repaired, 0)
}

// The fetches of one queue and a move out of it share its tasks: none is moved and given to a worker of the old queue.
func actMoveRace(w *world) {
	worker := w.worker(w.s)
	for range 8 {
		var specs []queue.Spec
		for i := range 40 {
			s := some()
			if i%4 == 0 {
				s = limited(fmt.Sprint("l", i), 1)
			}
			specs = append(specs, s)
		}
		ids := w.add(specs...)
		moved := map[queue.ID]bool{}
		var acts sync.WaitGroup
		acts.Go(func() {
			for part := range slices.Chunk(ids, 5) {
				answers, err := w.s.Tasks.Act(w.ctx, queue.Action{Act: queue.ActMove, IDs: part, Queue: "elsewhere"})
				if err != nil {
					w.Errorf("Act: %v", err)
				}
				for _, a := range answers {
					moved[a.ID] = a.Answer == queue.Done
				}
			}
		})
		var got []queue.Fetched
		for range 8 {
			got = append(got, w.fetch(worker, 6)...)
		}
		acts.Wait()
		for _, f := range got {
			if f.Queue != "q" || moved[f.ID] {
				w.Errorf("task %d was moved (%v), and given to a worker of the queue where it had been: %+v", f.ID, moved[f.ID], f)
			}
			w.done(worker, f.Ref, queue.Success)
		}
		for _, f := range w.fetch(worker, 100) { // what nobody has met
			w.done(worker, f.Ref, queue.Success)
		}
	}
}
