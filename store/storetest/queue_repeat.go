package storetest

import (
	"reflect"

	"github.com/dibs-run/dibs/queue/driver"
)

var repeatPromises = []promise{
	{"only the worker that ended a task is told so again", repeatedByAnother},
	{"an end that is reported again is known once another has the task", repeatedSinceGiven},
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
