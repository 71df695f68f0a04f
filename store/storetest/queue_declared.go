package storetest

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

func limitDeclared(w *world) {
	worker := w.worker(w.s)
	all := w.add(limited("l", 1), limited("l", 1), limited("l", 1))
	w.fetches("under the first declaration", worker, 10, all[0])
	equal(w, "events", len(w.limitEvents()), 0)
	more := w.add1(limited("l", 3))
	w.fetches("under the second declaration", worker, 10, all[1:]...)
	equal(w, "state of who declared it", w.task(more).State, task.Blocked)
	if got := w.limitEvents(); len(got) != 1 || !strings.Contains(got[0], `"l" from 1 to 3`) {
		w.Errorf("events: %q", got)
	}
	w.add1(limited("l", 1))
	_, held, _ := w.find(more)
	equal(w, "slots under the third", held.Max, 1)
	equal(w, "tasks that run", len(held.Running), 3)
	equal(w, "events", len(w.limitEvents()), 2)

	for _, what := range []string{"where nobody has named it yet", "where it is so already"} {
		w.add(limited("batch", 2), limited("batch", 2), limited("batch", 1))
		got := append(w.fetch(worker, 10), w.fetch(worker, 10)...)
		equal(w, "how many run when the last of a batch lets one, "+what, len(got), 1)
		for ; len(got) > 0; got = w.fetch(worker, 10) {
			for _, t := range got {
				w.done(worker, t.Ref, driver.Success)
			}
		}
	}
}

func limitRefused(w *world) {
	got := w.enqueue(w.s, keyed("u", "first"), keyed("u", "second"), keyed("", "third"))
	equal(w, "the answer to the second", got[1], task.Enqueued{Answer: task.Duplicate, ID: got[0].ID, State: task.Available})
	for limit, named := range map[string]bool{"first": true, "second": false, "third": true} {
		w.setLimit(keyed("", limit).Limit.Hash("k"), 2, named)
	}
}

func limitRaised(w *world) {
	worker := w.worker(w.s)
	s := limited("l", 1)
	all := w.add(s, s, s, s)
	first := w.fetches("at first", worker, 10, all[0])[0]
	w.setLimit(s.Limit.Hash("k"), 3, true)
	equal(w, "state of the next", w.task(all[1]).State, task.Available)
	w.fetches("when raised to three", worker, 10, all[1], all[2])
	_, held, _ := w.find(all[0])
	equal(w, "slots", held.Max, 3)
	if got := w.limitEvents(); len(got) != 1 || !strings.Contains(got[0], "from 1 to 3 by me") {
		w.Errorf("events: %q", got)
	}
	w.done(worker, first.Ref, driver.Success)
	w.fetches("the last", worker, 10, all[3])
	w.setLimit(task.Hash{1}, 3, false)
}

// limitSaid: tasks may declare what they like, an operator's word stands above it (rule Q5).
func limitSaid(w *world) {
	worker := w.worker(w.s)
	h := limited("l", 1).Limit.Hash("k")
	all := w.add(limited("l", 1), limited("l", 1), limited("l", 1))
	w.fetches("at first", worker, 10, all[0])
	w.setLimit(h, 0, true) // there is nothing to take back
	equal(w, "events of nothing", len(w.limitEvents()), 0)
	w.setLimit(h, 2, true)
	w.fetches("when an operator said two", worker, 10, all[1])
	for _, declared := range []int{1, 3, 2, 3} { // 2 is what holds anyway, and must be remembered all the same
		w.add1(limited("l", declared))
		_, held, _ := w.find(all[0])
		equal(w, "the limit, whatever is declared", held.Max, 2)
		w.fetches("whatever is declared", worker, 10)
		w.said(driver.Word{Hash: h, Key: "l", Max: 2, Declared: declared, By: "me"})
	}
	w.setLimit(h, 2, true) // it is so already
	if got := w.limitEvents(); len(got) != 1 || !strings.Contains(got[0], "from 1 to 2 by me") {
		w.Errorf("events: %q", got)
	}
	w.setLimit(h, 0, true)
	w.said()
	w.fetches("when it is taken back, by the last declaration", worker, 10, all[2])
	w.fetches("one too many", worker, 10)
	w.setLimit(h, 0, true)
	if got := w.limitEvents(); len(got) != 2 || !strings.Contains(got[1]+got[0], "from 2 to 3, as its tasks declare, by me") {
		w.Errorf("events: %q", got)
	}
	w.add1(limited("l", 5))
	_, held, _ := w.find(all[0])
	equal(w, "the limit, as declared again", held.Max, 5)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

func limitListed(w *world) {
	shared := limited("l", 1)
	shared.Limit.Shared = true
	other := limited("l", 1)
	other.Kind = "other"
	all := w.add(limited("l", 1), other, shared, limited("a", 1), limited("b", 1))
	w.setLimit(shared.Limit.Hash("k"), 4, true)
	w.setLimit(limited("b", 1).Limit.Hash("k"), 7, true)
	w.setLimit(limited("a", 1).Limit.Hash("k"), 1, true) // no other number, and yet a word
	for i, want := range []int{1, 1, 4, 1, 7} {
		_, held, _ := w.find(all[i])
		equal(w, fmt.Sprint("limit ", i), held.Max, want)
	}
	w.said(driver.Word{Hash: limited("a", 1).Limit.Hash("k"), Key: "a", Max: 1, Declared: 1, By: "me"},
		driver.Word{Hash: limited("b", 1).Limit.Hash("k"), Key: "b", Max: 7, Declared: 1, By: "me"},
		driver.Word{Hash: shared.Limit.Hash("k"), Key: "l", Max: 4, Declared: 1, By: "me"})
	w.setLimit(task.Hash{1}, 0, false)
}

func limitLowered(w *world) {
	worker := w.worker(w.s)
	s := limited("l", 3)
	all := w.add(s, s, s, s, s)
	got := w.fetches("at first", worker, 10, all[:3]...)
	w.setLimit(s.Limit.Hash("k"), 1, true)
	asked, err := w.s.Queue.Running(w.ctx, worker, false)
	w.check("Mine", err)
	equal(w, "tasks that still run", len(asked), 3)
	for i, f := range got {
		w.fetches(fmt.Sprintf("with %d running", 3-i), worker, 10)
		w.done(worker, f.Ref, driver.Success)
	}
	f := w.fetches("with none running", worker, 10, all[3])
	w.fetches("with one running", worker, 10)
	w.done(worker, f[0].Ref, driver.Success)
	w.fetches("the last", worker, 10, all[4])
	equal(w, "repairs", w.maintain().Repaired, 0)
}
