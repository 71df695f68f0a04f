//go:build linux

package work

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Operators against a live backlog: what they stop stops, what they promote comes first, what they move
// or discard is moved or discarded once, and nothing is lost between them and the workers.
func TestOperatorsAgainstABacklog(t *testing.T) {
	inParallel(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			inParallel(t)
			n := min(tasks(2_000, 60_000), 100_000)
			r := prepare(t, s.shared(t))
			r.enqueue(n)
			r.operate(n)
		})
	}
}

func (r *round) operate(n int) {
	r.Helper()
	// With everything paused, workers find nothing, however many there are.
	r.pause()
	for range 4 {
		w := r.start()
		defer func() { _ = w.in.Close(); _ = w.Wait() }()
	}
	r.stays(n)

	// The last of all is promoted, and so is the first to run; priority moves another one behind it.
	lasts := r.list(driver.Filter{After: task.ID(r.last() - 2), Max: 10})
	last := lasts[len(lasts)-1].ID
	r.act(driver.OpRequest{Operation: driver.OpPromote, IDs: []task.ID{last}})
	r.resume()
	r.await("the promoted task", func() bool { return r.list(driver.Filter{After: last - 1, UpTo: last})[0].State == task.Succeeded })
	if left := r.left(); left < n/10 && testsize.Long() {
		r.Errorf("when the promoted one was done, %d of %d were left", left, n)
	}

	// Paused in the middle: what runs ends, and then nothing moves.
	r.pause()
	r.await("the end of what ran", func() bool { return r.depth(task.Running) == 0 })
	left := r.left()
	r.stays(left)

	// Half of what is left is moved to where nobody works, the other half discarded, while the workers go on.
	waiting := queue.Bulk{Admin: r.s.Tasks, Filter: driver.Filter{Queue: task.DefaultQueue, States: task.Waits(true)}, Action: driver.OpRequest{By: "test"}}
	all, err := waiting.Preview(r.Context())
	if err != nil || all.Tasks != left {
		r.Fatalf("previewed %d of %d: %v", all.Tasks, left, err)
	}
	r.resume()
	middle := all.First + (all.Last-all.First)/2
	move := waiting
	move.Action.Operation, move.Action.Queue = driver.OpMove, "elsewhere"
	moved, err := move.Do(r.Context(), middle, nil)
	if err != nil {
		r.Fatal(err)
	}
	discard := waiting
	discard.Action.Operation = driver.OpDiscard
	discarded, err := discard.Do(r.Context(), all.Last, nil)
	if err != nil {
		r.Fatal(err)
	}
	if err := (queue.Bulk{Admin: r.s.Tasks, Filter: driver.Filter{Queue: task.DefaultQueue, States: append(task.Waits(true), task.Running)}}).
		Drained(r.Context(), all.Last, nil); err != nil {
		r.Fatal(err)
	}
	done := map[string]int{}
	for _, l := range r.subs() {
		for s, d := range l.Depth {
			done[l.Queue+" "+string(s)] += d
		}
	}
	m, d := moved.Answers[driver.Done], discarded.Answers[driver.Done]
	r.Logf("%d left when it was resumed: %d moved, %d discarded, the rest was worked meanwhile: %v", left, m, d, done)
	elsewhere := done["elsewhere available"] + done["elsewhere blocked"]
	if elsewhere != m || done["default discarded"] != d || done["default succeeded"] != n-m-d || r.overlaps.Load()+r.twice.Load()+r.doubled.Load() > 0 {
		r.Errorf("%d tasks: %d were moved, %d discarded; there are %v", n, m, d, done)
	}
}

func (r *round) pause() {
	r.Helper()
	if err := r.s.Tasks.Pause(r.Context(), driver.Pause{Queue: task.DefaultQueue, By: "test"}); err != nil {
		r.Fatal(err)
	}
}

func (r *round) resume() {
	r.Helper()
	if ok, err := r.s.Tasks.Resume(r.Context(), task.DefaultQueue, "", "test"); err != nil || !ok {
		r.Fatalf("resume: %v, %v", ok, err)
	}
}

func (r *round) act(a driver.OpRequest) {
	r.Helper()
	a.By = "test"
	answers, err := r.s.Tasks.Operate(r.Context(), a)
	if err != nil || answers[0].Answer != driver.Done {
		r.Fatalf("%s: %+v, %v", a.Operation, answers, err)
	}
}

func (r *round) list(f driver.Filter) []driver.Task {
	r.Helper()
	tasks, err := r.s.Tasks.Tasks(r.Context(), f)
	if err != nil || len(tasks) == 0 {
		r.Fatalf("list: %d tasks, %v", len(tasks), err)
	}
	return tasks
}

// last is the highest id.
func (r *round) last() task.ID {
	r.Helper()
	p, err := queue.Bulk{Admin: r.s.Tasks}.Preview(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return p.Last
}

// stays checks for two seconds that as many tasks are not final.
func (r *round) stays(n int) {
	r.Helper()
	for range 4 {
		time.Sleep(500 * time.Millisecond)
		if left := r.left(); left != n {
			r.Fatalf("%d tasks are left of %d, although the queue is paused", left, n)
		}
	}
}

func (r *round) await(what string, is func() bool) {
	r.Helper()
	const patience = 5 * time.Minute
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("no sign of %s after %s", what, patience)
		}
	}
}

func (r *round) subs() []driver.SubQueue {
	r.Helper()
	subs, err := r.s.Tasks.Queues(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return subs
}

func (r *round) depth(s task.State) (n int) {
	r.Helper()
	for _, l := range r.subs() {
		n += l.Depth[s]
	}
	return n
}
