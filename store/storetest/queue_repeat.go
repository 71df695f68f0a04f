package storetest

import (
	"reflect"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var repeatPromises = []promise{
	{"only the worker that ended a task is told so again", repeatedByAnother},
	{"an end that is reported again is known once another has the task", repeatedSinceGiven},
	{"what is asked for twice is done once", askedTwice},
}

// repeatedByAnother is a completion whose answer was lost: the worker that had the task may ask again. Another
// one, be it under the same token, has not ended it.
func repeatedByAnother(w *world) {
	worker, other := w.worker(w.s), w.worker(w.s)
	f := w.fetch1(worker, w.add1(some()))
	c := driver.Completion{Ref: f.Ref, Verdict: driver.Success}
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	equal(w, "Finish once more", w.finish(worker, c), driver.OK)
	equal(w, "Finish by another worker", w.finish(other, c), driver.Gone)
}

// repeatedSinceGiven: a worker whose answer was lost for so long that another one has the task has ended its own run.
// What others are told who know that token is not promised, but that it changes nothing.
func repeatedSinceGiven(w *world) {
	first, second, third := w.worker(w.s), w.worker(w.s), w.worker(w.s)
	for _, v := range []driver.Verdict{driver.Retry, driver.Return} {
		id := w.add1(some())
		c := w.ended(w.fetch1(first, id).Ref, v)
		equal(w, "Finish", w.finish(first, c), driver.OK)
		equal(w, "Finish by another, before it is given anew", w.finish(second, c), driver.Gone)
		again := w.fetch1(second, id)
		before := w.task(id)
		equal(w, "Finish once more", w.finish(first, c), driver.OK)
		w.finish(second, c)
		w.finish(third, c)
		if after := w.task(id); !reflect.DeepEqual(after, before) {
			w.Errorf("the task after them: got %+v, want %+v", after, before)
		}
		w.done(second, again.Ref, driver.Success)
	}
}

// askedTwice: a caller whose answer was lost asks again, and the second time changes nothing.
func askedTwice(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilStarted)
	s.Limit = &task.Limit{Key: "l", Max: 2}
	runs := w.fetch1(worker, w.add1(s))
	failed := w.add1(some())
	w.done(worker, w.fetch1(worker, failed).Ref, driver.Fail)
	all := w.add(some(), some(), some())
	waits, canceled, discarded := all[0], all[1], all[2]
	operate := func(o driver.Operation, id task.ID) func() {
		return func() { w.act(driver.OpRequest{Operation: o, IDs: []task.ID{id}, By: "ann", Why: "a test"}) }
	}
	for _, c := range []struct {
		what string
		id   task.ID
		do   func()
	}{
		{"Start", runs.ID, func() { equal(w, "Start", w.begin(worker, runs.Ref), driver.OK) }},
		{"Register", runs.ID, func() {
			w.check("Register", w.s.Queue.Register(w.ctx, driver.Process{Lease: worker, Host: "h", PID: 1, Queues: []string{"q"}, Slots: 10}))
		}},
		{"Declare", runs.ID, func() {
			w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{"k": {Count: 5, Per: time.Hour}}))
		}},
		{"a cancel of what runs", runs.ID, operate(driver.OpCancel, runs.ID)}, {"a promotion", waits, operate(driver.OpPromote, waits)},
		{"a cancel", canceled, operate(driver.OpCancel, canceled)}, {"a discard", discarded, operate(driver.OpDiscard, discarded)},
		{"a retry", failed, operate(driver.OpRetry, failed)}, {"a retry of what was canceled", canceled, operate(driver.OpRetry, canceled)},
	} {
		c.do()
		before, held, _ := w.find(c.id)
		rates, err := w.s.Tasks.Rates(w.ctx)
		w.check("Rates", err)
		c.do()
		after, heldAfter, _ := w.find(c.id)
		again, err := w.s.Tasks.Rates(w.ctx)
		w.check("Rates", err)
		if !reflect.DeepEqual(before, after) || !reflect.DeepEqual(held, heldAfter) || !reflect.DeepEqual(rates, again) || len(w.workers()) != 1 {
			w.Errorf("%s twice: first %+v\n%+v %v\nand then %+v\n%+v %v", c.what, before, held, rates, after, heldAfter, again)
		}
	}
	w.done(worker, runs.Ref, driver.Success)
	equal(w, "repairs", w.maintain().Repaired, 0)
}
