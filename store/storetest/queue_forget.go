package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// RunForgottenLimits checks that the record of a limit is forgotten when nobody has used it for long, and made anew
// where it is wanted again. That of a running or a waiting task stays, and one on which an operator's word stands.
// age makes it look as if the limits of a namespace had been used for the last time longer ago than that.
// Holds: Q5.
func RunForgottenLimits(t *testing.T, open Open, url string, age func(t *testing.T, c store.Config)) {
	t.Helper()
	w := newWorld(t, open, url)
	hash := func(key string) task.Hash { return (&task.Limit{Key: key}).Hash("k") }
	known := func(key string) bool {
		w.Helper()
		ok, err := w.s.Tasks.SetLimit(w.ctx, hash(key), 0, "me") // no word stands that it could take back
		w.check("SetLimit", err)
		return ok
	}
	gone, waiting := []string{"gone", "taken back"}, []string{}
	for i := range 210 { // more than one call of Maintain looks at
		gone, waiting = append(gone, fmt.Sprint("unused ", i)), append(waiting, fmt.Sprint("waits ", i))
	}
	worker, had := w.worker(w.s), map[string]driver.Fetched{}
	var specs []task.Spec
	for _, key := range slices.Concat(waiting, gone, []string{"said", "runs", "is wanted"}) {
		specs = append(specs, limited(key, 1))
	}
	w.add(specs...)
	for _, f := range w.fetchAll(worker) {
		had[f.Limit.Key] = f
	}
	equal(w, "tasks that are given", len(had), len(specs))
	for key, f := range had {
		if key != "runs" && key != "is wanted" {
			w.done(worker, f.Ref, driver.Success)
		}
	}
	behind := w.add1(limited("is wanted", 1))
	specs = nil
	for _, key := range waiting {
		specs = append(specs, limited(key, 1))
	}
	waits := w.add(specs...)
	fresh := some()
	fresh.Queue, fresh.Limit = "other", &task.Limit{Key: "fresh", Shared: true}
	w.add(fresh)
	later, latest := limited("later", 1), limited("latest", 1)
	later.Delay, latest.Delay = time.Hour, time.Hour
	scheduled, last := w.add(later, later, later), w.add(latest, latest)
	w.setLimit(hash("said"), 2, true)
	w.setLimit(hash("taken back"), 2, true)
	w.setLimit(hash("taken back"), 0, true)
	age(t, w.config)
	w.done(worker, w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"other"}}).Tasks[0].Ref, driver.Success)

	for n := 0; slices.ContainsFunc(gone, known); n++ {
		equal(w, "repaired", w.maintain().Repaired, 0)
		if n == 50 {
			t.Fatalf("after %d calls of Maintain limit %q is there", n, gone[slices.IndexFunc(gone, known)])
		}
	}
	w.maintain()
	for _, key := range append(waiting, "runs", "is wanted") {
		equal(w, key+" is there", known(key), true)
	}
	w.setLimit(fresh.Limit.Hash("k"), 0, true)
	w.said(driver.Word{Hash: hash("said"), Key: "said", Max: 2, Declared: 1, By: "me"})

	// A limit that was forgotten is what the next task under it declares, or an older one did that is wanted again.
	again := had["gone"].ID
	_, slots, _ := w.find(again)
	equal(w, "key of a forgotten limit", slots.Key, "gone")
	w.acted(driver.OpRetry, again, driver.Done)
	w.acted(driver.OpCancel, scheduled[0], driver.Done)
	for _, id := range append(last, scheduled[1:]...) {
		w.acted(driver.OpPromote, id, driver.Done)
	}
	said := w.add(limited("said", 1), limited("said", 1), limited("said", 1))
	w.add(limited("gone", 1))
	given, got := w.fetchAll(worker), map[task.ID]driver.Fetched{}
	for _, f := range given {
		got[f.ID] = f
	}
	want := append(waits, again, last[0], scheduled[1], said[0], said[1])
	for _, id := range want {
		if _, ok := got[id]; !ok {
			t.Errorf("task %d is not given", id)
		}
	}
	equal(w, "tasks that are given", len(given), len(want))
	if got[again].Token <= had["gone"].Token {
		t.Errorf("token %d after %d", got[again].Token, had["gone"].Token)
	}
	for _, f := range given {
		w.done(worker, f.Ref, driver.Success)
	}
	w.done(worker, had["is wanted"].Ref, driver.Success)
	if rest := w.fetch(worker, 100); len(rest) != 5 || !slices.Contains(ids(rest), behind) {
		t.Errorf("the rest: %v", ids(rest))
	}
}

// fetchAll fetches until nothing is given any more.
func (w *world) fetchAll(worker lease.Ref) (all []driver.Fetched) {
	w.Helper()
	for {
		some := w.fetch(worker, 1000)
		if all = append(all, some...); len(some) == 0 {
			return all
		}
	}
}
