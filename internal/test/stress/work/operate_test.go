//go:build linux

package work

import (
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
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
	r.await("the promoted task", func() bool {
		return r.list(driver.Filter{After: last - 1, Before: last + 1})[0].State == task.Succeeded
	})
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
	m := r.bulk(move, middle)
	discard := waiting
	discard.Action.Operation = driver.OpDiscard
	d := r.bulk(discard, all.Last)
	rest := queue.Bulk{Admin: r.s.Tasks, Filter: driver.Filter{Queue: task.DefaultQueue, States: append(task.Waits(true), task.Running)}}
	r.insist(func() error { return rest.Drained(r.Context(), all.Last, nil) })
	done := map[string]int{}
	for _, l := range r.subs() {
		for s, d := range l.Depth {
			done[l.Queue+" "+string(s)] += d
		}
	}
	r.Logf("%d left when it was resumed: %d moved, %d discarded, the rest was worked meanwhile: %v", left, m, d, done)
	elsewhere := done["elsewhere available"] + done["elsewhere blocked"]
	if elsewhere != m || done["default discarded"] != d || done["default succeeded"] != n-m-d || r.overlaps.Load()+r.twice.Load()+r.doubled.Load() > 0 {
		r.Errorf("%d tasks: %d were moved, %d discarded; there are %v", n, m, d, done)
	}
}

func (r *round) pause() {
	r.Helper()
	r.insist(func() error {
		return r.s.Tasks.Pause(r.Context(), driver.Pause{Queue: task.DefaultQueue, By: "test"})
	})
}

func (r *round) resume() {
	r.Helper()
	r.insist(func() error {
		ok, err := r.s.Tasks.Resume(r.Context(), task.DefaultQueue, "", "test")
		if err == nil && !ok {
			r.Fatal("it was not paused")
		}
		return err
	})
}

// insist does something again while the store does not take it: workers change the same tasks, and the machine may be
// slow.
func (r *round) insist(do func() error) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if !errors.Is(err, lease.ErrUnavailable) || time.Now().After(end) {
			r.Fatal(err)
		}
	}
}

// bulk returns how many tasks up to last an operation was done with.
func (r *round) bulk(b queue.Bulk, last task.ID) (n int) {
	r.Helper()
	r.insist(func() error {
		p, err := b.Do(r.Context(), last, nil)
		n += p.Answers[driver.Done]
		return err
	})
	return n
}

const patience = 5 * time.Minute

func (r *round) act(a driver.OpRequest) {
	r.Helper()
	a.By = "test"
	r.insist(func() error {
		answers, err := r.s.Tasks.Operate(r.Context(), a)
		if err == nil && answers[0].Answer != driver.Done {
			r.Fatalf("%s: %+v", a.Operation, answers)
		}
		return err
	})
}

func (r *round) list(f driver.Filter) []driver.Task {
	r.Helper()
	var tasks []driver.Task
	r.insist(func() (err error) { tasks, err = r.s.Tasks.Tasks(r.Context(), f); return err })
	if len(tasks) == 0 {
		r.Fatal("there is no such task")
	}
	return tasks
}

// last is the highest id.
func (r *round) last() task.ID {
	r.Helper()
	var p queue.Preview
	r.insist(func() (err error) { p, err = queue.Bulk{Admin: r.s.Tasks}.Preview(r.Context()); return err })
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
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("no sign of %s after %s", what, patience)
		}
	}
}

func (r *round) subs() []driver.SubQueue {
	r.Helper()
	var subs []driver.SubQueue
	r.insist(func() (err error) { subs, err = r.s.Tasks.Queues(r.Context()); return err })
	return subs
}

func (r *round) depth(s task.State) (n int) {
	r.Helper()
	for _, l := range r.subs() {
		n += l.Depth[s]
	}
	return n
}
