package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var queuePausePromises = []promise{
	// Holds: promise 23.
	{"a pause stops fetching of exactly what it names", pauseStops},
	{"a pause ends at its instant", pauseUntil},
	{"pauses are told, replaced, ended, and recorded", pauseTold},
	{"a pause touches neither keys nor what runs", pauseTouches},
	{"a paused queue does not hold up a limit", pauseLimit},
	// Holds: promise 23.
	{"nothing is given any more once a pause is answered", pauseAnswered},
}

func (w *world) pauseQueue(p driver.Pause) {
	w.Helper()
	w.check("Pause", w.s.Tasks.Pause(w.ctx, p))
}

func (w *world) resume(q, kind string, want bool) {
	w.Helper()
	ok, err := w.s.Tasks.Resume(w.ctx, q, kind, "me")
	w.check("Resume", err)
	equal(w, "Resume", ok, want)
}

func pauseStops(w *world) {
	worker := w.worker(w.s)
	of := func(q, kind string) task.Spec { return task.Spec{Queue: q, Kind: kind} }
	for _, p := range []struct {
		queue, kind string
		stopped     []int
	}{
		{"a", "", []int{0, 1}},
		{"", "x", []int{0, 2}},
		{"a", "x", []int{0}},
		{"", "", []int{0, 1, 2, 3}},
		{"A", "", nil},
		{"none", "y", nil},
	} {
		all := w.add(of("a", "x"), of("a", "y"), of("b", "x"), of("b", "y"))
		w.pauseQueue(driver.Pause{Queue: p.queue, Kind: p.kind})
		got := w.fetchWith(w.process(), driver.FetchRequest{Worker: worker, Queues: []string{"a", "b"}})
		var want, stopped []task.ID
		for i, id := range all {
			is := false
			for _, s := range p.stopped {
				is = is || s == i
			}
			if is {
				stopped = append(stopped, id)
			} else {
				want = append(want, id)
			}
		}
		w.order("while "+driver.Pause{Queue: p.queue, Kind: p.kind}.What()+" is paused", ids(got.Tasks), want)
		for _, id := range stopped {
			w.state("a paused one", id, task.Available, "")
		}
		w.resume(p.queue, p.kind, true)
		got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"a", "b"}})
		w.order("when it is over", ids(got.Tasks), stopped)
	}
}

func pauseUntil(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	until := w.now(w.s).Add(100 * time.Millisecond)
	w.pauseQueue(driver.Pause{Queue: "q", Until: until})
	for {
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker})
		if len(got.Tasks) > 0 {
			w.order("after the pause", ids(got.Tasks), []task.ID{id})
			if got.Now.Before(until) {
				w.Errorf("given at %v, before %v", got.Now, until)
			}
			break
		}
		if got.Now.After(until.Add(10 * time.Second)) {
			w.Fatal("the pause does not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	pauses, err := w.s.Tasks.Pauses(w.ctx)
	w.check("Pauses", err)
	equal(w, "pauses when it is over", len(pauses), 0)
	w.resume("q", "", false)
}

func pauseTold(w *world) {
	before := w.now(w.s)
	until := before.Add(time.Hour).Truncate(time.Second)
	w.pauseQueue(driver.Pause{Queue: "q", Kind: "k", By: "me ß", Why: "it is 'broken' 🐘"})
	w.pauseQueue(driver.Pause{Queue: "q", Until: until, By: "you"})
	w.pauseQueue(driver.Pause{Queue: "b", Kind: ""})
	pauses, err := w.process().Tasks.Pauses(w.ctx)
	w.check("Pauses", err)
	if len(pauses) != 3 || pauses[0].Queue != "b" || pauses[1].Kind != "" || pauses[2].Kind != "k" {
		w.Fatalf("Pauses: %+v", pauses)
	}
	equal(w, "by", pauses[2].By, "me ß")
	equal(w, "why", pauses[2].Why, "it is 'broken' 🐘")
	equal(w, "until", pauses[2].Until.IsZero(), true)
	sameTime(w, "until of the second", pauses[1].Until, until)
	between(w, "since", before, pauses[1].Since, w.now(w.s))

	w.pauseQueue(driver.Pause{Queue: "q", Kind: "", By: "another"})
	pauses, err = w.s.Tasks.Pauses(w.ctx)
	w.check("Pauses", err)
	if len(pauses) != 3 || pauses[1].By != "another" || !pauses[1].Until.IsZero() {
		w.Errorf("Pauses after one was replaced: %+v", pauses)
	}
	w.resume("q", "none", false)
	w.resume("q", "", true)
	w.resume("q", "", false)
	pauses, err = w.s.Tasks.Pauses(w.ctx)
	w.check("Pauses", err)
	equal(w, "pauses that are left", len(pauses), 2)

	if got := w.happened("queue-paused"); len(got) != 4 || !strings.Contains(got[3].Reason, "kind k in queue q by me ß: it is 'broken' 🐘") {
		w.Errorf("events of pauses: %+v", got)
	}
	if got := w.happened("queue-resumed"); len(got) != 1 || !strings.Contains(got[0].Reason, "queue q by me") {
		w.Errorf("events of resumptions: %+v", got)
	}
}

func pauseTouches(w *world) {
	worker := w.worker(w.s)
	s := unique("u", task.UntilFinished)
	running := w.fetch1(worker, w.add1(s))
	w.pauseQueue(driver.Pause{})
	w.duplicate(s, running.ID, task.Running)
	equal(w, "Start", w.begin(worker, running.Ref), driver.OK)
	w.done(worker, running.Ref, driver.Success)
	id := w.add1(s) // enqueueing goes on
	w.duplicate(s, id, task.Available)
	w.maintain()
	w.fetches("while everything is paused", worker, 10)
	w.resume("", "", true)
	w.fetches("afterwards", worker, 10, id)
}

func pauseLimit(w *world) {
	worker := w.worker(w.s)
	of := func(q string) task.Spec {
		return task.Spec{Queue: q, Kind: "k", Limit: &task.Limit{Key: "l"}}
	}
	all := w.add(of("a"), of("b"), of("a"), of("b"))
	w.pauseQueue(driver.Pause{Queue: "a"})
	fetch := func(what string, want ...task.ID) {
		w.Helper()
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"a", "b"}})
		w.order(what, ids(got.Tasks), want)
		if len(got.Tasks) == 1 {
			w.done(worker, got.Tasks[0].Ref, driver.Success)
		}
	}
	fetch("the first that is not paused", all[1])
	fetch("the second that is not paused", all[3])
	fetch("nothing but what is paused")
	w.resume("a", "", true)
	fetch("when the pause is over", all[0])
	fetch("the last", all[2])
}

func pauseAnswered(w *world) {
	worker := w.worker(w.s)
	waiting := func() int { return len(w.tasks(driver.Filter{States: task.Waits(true), Max: 1000})) }
	for n := range 6 {
		var specs []task.Spec
		for i := range 200 {
			s := some()
			if i%5 == 0 {
				s = limited(fmt.Sprint("l", n, i), 1)
			}
			specs = append(specs, s)
		}
		w.add(specs...)
		var over atomic.Bool
		var left int
		together(4, func(i int) {
			if i == 0 {
				time.Sleep(time.Duration(n) * time.Millisecond) // they are at it
				if err := w.s.Tasks.Pause(w.ctx, driver.Pause{Queue: "q"}); err != nil {
					w.Errorf("Pause: %v", err)
				}
				left = waiting()
				time.Sleep(20 * time.Millisecond) // what is still given shows below
				over.Store(true)
				return
			}
			for !over.Load() {
				if _, err := w.s.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 7, Suspects: true, Crashers: true}); err != nil {
					w.Errorf("Fetch: %v", err)
					return
				}
			}
		})
		equal(w, "tasks that wait, some time after the pause was answered", waiting(), left)
		w.resume("q", "", true)
		for w.fetch(worker, 100) != nil && waiting() > 0 {
			continue
		}
	}
}
