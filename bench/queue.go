package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A workshop is a task queue that takes part: tasks that do nothing are put into it and worked off.
type workshop struct {
	name string
	// add takes one task in, and is called by many goroutines at once; fill takes n in.
	add  func(ctx context.Context) error
	fill func(ctx context.Context, n int) error
	// variant says that it differs from the one before it in how tasks are worked only.
	variant bool
	// bulk says that fill takes up to a thousand in in one call.
	bulk bool
	// tasks is how many are worked off in a turn; 0 is what the options say.
	tasks int
	// work begins to work, with done called at the beginning of each task, and returns what stops it.
	work func(ctx context.Context, done func()) (stop func(), err error)
	// atLast ends the time of working off with the last task's beginning, not with the worker's end.
	atLast bool
	// clear makes room after a turn; nil where what is left costs nothing.
	clear func(ctx context.Context) error
	// used is the processor time of this process and of the server so far; usedUp is what the turns took of it,
	// per task.
	used   func() time.Duration
	usedUp *[]float64
}

// costing measures what a part of a turn, that did n tasks, used of the processors.
func (s workshop) costing(part func() (n int, took time.Duration, err error)) (float64, error) {
	before := s.used()
	n, took, err := part()
	*s.usedUp = append(*s.usedUp, (s.used()-before).Seconds()*1e6/float64(n))
	return float64(n) / took.Seconds(), err
}

// cleared is a turn after which the workshop makes room.
func (s workshop) cleared(ctx context.Context, rate float64, err error) (float64, error) {
	if err == nil && s.clear != nil {
		err = s.clear(ctx)
	}
	return rate, err
}

const (
	bulkTasks = 1000 // that travel in one call
	starts    = 300  // of which the latency is measured
)

// compareQueues has workshops take turns in everything that is measured.
func compareQueues(ctx context.Context, w io.Writer, o options, title string, shops []workshop) error {
	// First of all, since a server that has just been busy tidies up for a while.
	if o.part == "" || o.part == "start" {
		fmt.Fprintf(w, "\n%s: from enqueue to start on an idle queue (%d tasks, a minute at most)\n", title, starts)
		for _, s := range shops {
			if err := latency(ctx, w, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	all := func(workshop) bool { return true }
	parts := []struct {
		name string
		what string
		who  func(workshop) bool
		turn func(workshop) (float64, error)
	}{
		{"work", "tasks that do nothing, worked off", all, func(s workshop) (float64, error) { return emptied(ctx, o, s) }},
		{"single", "enqueued by 32 callers, one at a time", func(s workshop) bool { return !s.variant }, func(s workshop) (float64, error) { return added(ctx, o, s, 32, 1, s.add) }},
		{"bulk", "enqueued 1,000 at a time by one caller", func(s workshop) bool { return s.bulk && !s.variant }, func(s workshop) (float64, error) {
			return added(ctx, o, s, 1, bulkTasks, func(ctx context.Context) error { return s.fill(ctx, bulkTasks) })
		}},
	}
	for _, p := range parts {
		if o.part != "" && o.part != p.name {
			continue
		}
		var here []workshop
		var contestants []contestant
		for _, s := range shops {
			if s.usedUp = new([]float64); p.who(s) {
				here = append(here, s)
				contestants = append(contestants, contestant{s.name, func() (float64, error) { return p.turn(s) }})
			}
		}
		t, err := play(o.rounds, contestants)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s: %s (median, range of %d rounds)\n", title, p.what, o.rounds)
		t.print(w, showRate)
		for _, s := range here {
			fmt.Fprintf(w, "  %-18s %.1f µs of the processors per task\n", s.name, median((*s.usedUp)[1:]))
		}
	}
	return nil
}

// emptied fills the queue, then measures how fast it is emptied.
func emptied(ctx context.Context, o options, s workshop) (float64, error) {
	n := cmp.Or(s.tasks, o.tasks)
	if err := s.fill(ctx, n); err != nil {
		return 0, err
	}
	rate, err := s.costing(func() (int, time.Duration, error) {
		took, err := workedOff(ctx, s, n)
		return n, took, err
	})
	return s.cleared(ctx, rate, err)
}

// workedOff works n tasks off, until all is reported and the worker has ended.
func workedOff(ctx context.Context, s workshop, n int) (time.Duration, error) {
	var done atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	stop, err := s.work(ctx, func() {
		if done.Add(1) == int64(n) {
			close(all)
		}
	})
	if err != nil {
		return 0, err
	}
	defer stop()
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(2 * time.Minute):
		return 0, fmt.Errorf("%d of %d tasks were worked in two minutes", done.Load(), n)
	}
	if s.atLast {
		return time.Since(began), nil
	}
	stop()
	return time.Since(began), nil
}

// added measures callers that each enqueue, again and again, each of them tasks at a time. What they left is
// worked off or cleared, unmeasured.
func added(ctx context.Context, o options, s workshop, goroutines, each int, do func(context.Context) error) (float64, error) {
	var n int
	rate, err := s.costing(func() (int, time.Duration, error) {
		calls, took, err := callers(goroutines, o.turn, func() error { return do(ctx) })
		n = calls * each
		return n, took, err
	})
	if err == nil && !s.atLast {
		_, err = workedOff(ctx, s, n)
	}
	return s.cleared(ctx, rate, err)
}

// latency enqueues one task at a time, into a queue that is worked and empty.
func latency(ctx context.Context, w io.Writer, s workshop) error {
	started := make(chan time.Time, 1)
	stop, err := s.work(ctx, func() { started <- time.Now() })
	if err != nil {
		return err
	}
	defer stop()
	var all []time.Duration
	began := time.Now()
	for i := range starts + 20 {
		if i >= 40 && time.Since(began) > time.Minute {
			break // some take a second for each
		}
		time.Sleep(20 * time.Millisecond) // it is idle again
		asked := time.Now()
		if err := s.add(ctx); err != nil {
			return err
		}
		select {
		case at := <-started:
			if i >= 20 { // the first ones warm up
				all = append(all, at.Sub(asked))
			}
		case <-time.After(30 * time.Second):
			return fmt.Errorf("a task was not started within 30 s")
		}
	}
	slices.Sort(all)
	fmt.Fprintf(w, "  %s\tmedian %s, p99 %s\n", s.name+strings.Repeat(" ", max(0, 18-len(s.name))),
		all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond))
	return nil
}

// callers makes as many calls as n goroutines can in a time.
func callers(n int, d time.Duration, call func() error) (int, time.Duration, error) {
	began := time.Now()
	finish := began.Add(d)
	var done atomic.Int64
	err := inParallel(n, func() (bool, error) {
		if time.Now().After(finish) {
			return false, nil
		}
		done.Add(1)
		return true, call()
	})
	return int(done.Load()), time.Since(began), err
}

// times makes a number of calls by several goroutines.
func times(ctx context.Context, goroutines, n int, call func(context.Context) error) error {
	var next atomic.Int64
	return inParallel(goroutines, func() (bool, error) {
		if next.Add(1) > int64(n) {
			return false, nil
		}
		return true, call(ctx)
	})
}

// inParallel has several goroutines make a call until it says that there is no more, or fails.
func inParallel(goroutines int, call func() (more bool, err error)) error {
	var failed atomic.Value
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for failed.Load() == nil {
				more, err := call()
				if err != nil {
					failed.Store(err)
				}
				if !more {
					return
				}
			}
		})
	}
	all.Wait()
	err, _ := failed.Load().(error)
	return err
}

func ownTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
