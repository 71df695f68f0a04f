package storetest

import "github.com/dibs-run/dibs/queue"

var repeatPromises = []promise{
	{"only the worker that ended a task is told so again", repeatedByAnother},
}

// repeatedByAnother is a completion whose answer was lost: the worker that had the task may ask again. Another one, be it
// under the same token, has not ended it.
func repeatedByAnother(w *world) {
	worker, other := w.worker(w.s), w.worker(w.s)
	f := w.fetch1(worker, w.add1(some()))
	c := queue.Completion{Ref: f.Ref, Verdict: queue.Success}
	equal(w, "Finish", w.finish(worker, c), queue.OK)
	equal(w, "Finish once more", w.finish(worker, c), queue.OK)
	equal(w, "Finish by another worker", w.finish(other, c), queue.Gone)
}
