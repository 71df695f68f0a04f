package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Why returns, as sentences, all reasons why a waiting task is not being worked. It is empty for a task that does
// not wait or that is about to be fetched (except a suspect, which may have to wait for other suspects). heldUntil
// is the store instant before which no slot of a limit is given (store.Properties.HoldUntil, of a store that was
// just opened); zero if slots are given.
func Why(ctx context.Context, a driver.Admin, t driver.Task, held driver.Slots, now, heldUntil time.Time) ([]string, error) {
	if !t.State.Waiting() {
		return nil, nil
	}
	pauses, err := a.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := a.Workers(ctx)
	if err != nil {
		return nil, err
	}
	rates, err := a.Rates(ctx)
	if err != nil {
		return nil, err
	}
	var why []string
	if (t.State == task.Scheduled || t.State == task.Retryable) && t.RunAt.After(now) {
		why = append(why, fmt.Sprintf("it is not due before %s", t.RunAt.UTC().Format(time.RFC3339)))
	}
	for _, p := range pauses {
		if p.Covers(t.Queue, t.Kind, now) {
			_, words := p.Event()
			why = append(why, "paused: "+words)
		}
	}
	if t.State == task.Blocked {
		why = append(why, blocked(held))
	}
	if t.Limit != nil && heldUntil.After(now) && heldUntil.After(t.RunAt) {
		why = append(why, heldBack(heldUntil.Sub(now)))
	}
	if p, found := rates[t.Kind]; found && t.State == task.Available && p.Next.After(now) {
		why = append(why, fmt.Sprintf("the rate of its kind, one in every %s, is used up until %s", p.Each, p.Next.UTC().Format(time.RFC3339)))
	}
	why = append(why, unworked(t, workers)...)
	if len(why) == 0 {
		why = occupied(t, workers)
	}
	if len(why) == 0 && t.State == task.Available {
		why = suspected(t)
	}
	return why, nil
}

func blocked(s driver.Slots) string {
	words := fmt.Sprintf("its limit %q lets %d run at the same time", s.Key, s.Max)
	for i, h := range s.Running {
		if i == 5 {
			return words + fmt.Sprintf(", and %d more", len(s.Running)-i)
		}
		words += fmt.Sprintf("; task %d does, on %s pid %d, since %s", h.ID, h.Worker.Host, h.Worker.PID, h.Since.UTC().Format(time.RFC3339))
	}
	return words
}

// heldBack says that no task with a limit is given for a while (rules Q5, L9).
func heldBack(wait time.Duration) string {
	return fmt.Sprintf("slots of limits are held back for %s more: the store is new, or its server changed",
		max(wait, time.Second).Round(time.Second))
}

// does reports whether the worker could be given t.
func does(w *driver.Process, t driver.Task) bool {
	return slices.Contains(w.Queues, t.Queue) && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, t.Kind))
}

// occupied reports whether no worker that could take the task has room.
func occupied(t driver.Task, workers []driver.Process) []string {
	able, slots := 0, 0
	for _, w := range workers {
		if does(&w, t) {
			if w.Running < w.Slots {
				return nil
			}
			able, slots = able+1, slots+w.Slots
		}
	}
	return []string{fmt.Sprintf("%s of %s could take it, and none is free", plural(slots, "slot"), plural(able, "worker"))}
}

// suspected explains how a task is fetched after a worker died with it (rule Q4): other suspects may be before it.
func suspected(t driver.Task) []string {
	switch {
	case !t.Suspect:
		return nil
	case t.Crashes == 0:
		return []string{"a worker died while it had it: a fetch takes one such task at a time"}
	}
	return []string{fmt.Sprintf("it took %s down: a worker takes one such task at a time, and the next one when that has ended", plural(t.Crashes, "worker"))}
}

// unworked reports whether no worker could take the task.
func unworked(t driver.Task, workers []driver.Process) []string {
	served, known := false, false
	for _, w := range workers {
		served = served || slices.Contains(w.Queues, t.Queue)
		known = known || does(&w, t)
	}
	switch {
	case !served:
		return []string{"no worker works queue " + t.Queue}
	case !known:
		return []string{"no worker of queue " + t.Queue + " knows kind " + t.Kind}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
