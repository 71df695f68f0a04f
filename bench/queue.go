package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A workshop is a task queue that takes part: tasks that do nothing are put into it and worked off.
type workshop struct {
	name string
	// add takes one task in, and is called by many goroutines at once; bulk takes n in at once.
	add  func(ctx context.Context) error
	bulk func(ctx context.Context, n int) error
	// work begins to work, with done called at the beginning of each task, and returns what stops it.
	work func(ctx context.Context, done func()) (stop func(), err error)
	// used is the processor time of this process and of the server so far; used up is what the turns took of it, per task.
	used   func() time.Duration
	usedUp *[]float64
}

// costing measures what a part of a turn, that did n tasks, used of the processors.
func (s workshop) costing(part func() (n int64, took time.Duration, err error)) (float64, error) {
	before := s.used()
	n, took, err := part()
	*s.usedUp = append(*s.usedUp, (s.used()-before).Seconds()*1e6/float64(n))
	return float64(n) / took.Seconds(), err
}

const (
	workTasks = 20_000 // that are worked off in a turn
	bulkTasks = 1000   // that travel in one call
	starts    = 300    // of which the latency is measured
)

// compareQueues has workshops take turns in everything that is measured.
func compareQueues(ctx context.Context, w io.Writer, o options, title string, shops []workshop) error {
	parts := []struct {
		what string
		show func(float64) string
		turn func(workshop) (float64, error)
	}{
		{"tasks that do nothing, worked off", showRate, func(s workshop) (float64, error) { return emptied(ctx, s) }},
		{"enqueued by 32 callers, one at a time", showRate, func(s workshop) (float64, error) { return added(ctx, o, s, 32, 1, s.add) }},
		{"enqueued 1,000 at a time by one caller", showRate, func(s workshop) (float64, error) {
			return added(ctx, o, s, 1, bulkTasks, func(ctx context.Context) error { return s.bulk(ctx, bulkTasks) })
		}},
	}
	for _, p := range parts {
		var contestants []contestant
		for i := range shops {
			contestants = append(contestants, contestant{shops[i].name, func() (float64, error) { return p.turn(shops[i]) }})
		}
		for i := range shops {
			shops[i].usedUp = new([]float64)
		}
		t, err := play(o.rounds, contestants)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s: %s (median, range of %d rounds)\n", title, p.what, o.rounds)
		t.print(w, p.show)
		for _, s := range shops {
			fmt.Fprintf(w, "  %-14s %.1f µs of the processors per task\n", s.name, median((*s.usedUp)[1:]))
		}
	}
	fmt.Fprintf(w, "\n%s: from enqueue to start on an idle queue (%d tasks)\n", title, starts)
	for _, s := range shops {
		if err := latency(ctx, w, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// emptied fills the queue, then measures how fast it is emptied.
func emptied(ctx context.Context, s workshop) (float64, error) {
	for range workTasks / bulkTasks {
		if err := s.bulk(ctx, bulkTasks); err != nil {
			return 0, err
		}
	}
	return s.costing(func() (int64, time.Duration, error) {
		took, err := workedOff(ctx, s, workTasks)
		return workTasks, took, err
	})
}

// workedOff works n tasks, until they are done and the worker has ended: only what is reported is done.
func workedOff(ctx context.Context, s workshop, n int64) (time.Duration, error) {
	var done atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	stop, err := s.work(ctx, func() {
		if done.Add(1) == n {
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
	stop()
	return time.Since(began), nil
}

// added measures callers that each enqueue, again and again, each of them tasks at a time. What they left is worked off, unmeasured.
func added(ctx context.Context, o options, s workshop, goroutines int, each int64, do func(context.Context) error) (float64, error) {
	var n int64
	rate, err := s.costing(func() (int64, time.Duration, error) {
		calls, took, err := callers(goroutines, o.turn, func() error { return do(ctx) })
		n = int64(calls) * each
		return n, took, err
	})
	if err != nil {
		return 0, err
	}
	_, err = workedOff(ctx, s, n)
	return rate, err
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
	for i := range starts + 20 {
		time.Sleep(20 * time.Millisecond) // it is idle again
		began := time.Now()
		if err := s.add(ctx); err != nil {
			return err
		}
		select {
		case at := <-started:
			if i >= 20 { // the first ones warm up
				all = append(all, at.Sub(began))
			}
		case <-time.After(30 * time.Second):
			return fmt.Errorf("a task was not started within 30 s")
		}
	}
	slices.Sort(all)
	fmt.Fprintf(w, "  %s\tmedian %s, p99 %s\n", s.name+strings.Repeat(" ", max(0, 16-len(s.name))),
		all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond))
	return nil
}
