package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Why says, in sentences, why a task that waits is not worked: all reasons that there are. It is empty for a
// task that does not wait, or that is about to be fetched (but for a suspect, which may have to wait for its
// like).
func Why(ctx context.Context, a Admin, t Task, held Slots, now time.Time) ([]string, error) {
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
	if (t.State == Scheduled || t.State == Retryable) && t.RunAt.After(now) {
		why = append(why, fmt.Sprintf("it is not due before %s", t.RunAt.UTC().Format(time.RFC3339)))
	}
	for _, p := range pauses {
		if p.Covers(t.Queue, t.Kind, now) {
			_, words := p.Event()
			why = append(why, "paused: "+words)
		}
	}
	if t.State == Blocked {
		why = append(why, blocked(held))
	}
	if p, found := rates[t.Kind]; found && t.State == Available && p.Next.After(now) {
		why = append(why, fmt.Sprintf("the rate of its kind, one in every %s, is used up until %s", p.Each, p.Next.UTC().Format(time.RFC3339)))
	}
	why = append(why, unworked(t, workers)...)
	if len(why) == 0 {
		why = occupied(t, workers)
	}
	if len(why) == 0 && t.State == Available {
		why = suspected(t)
	}
	return why, nil
}

// Covers says whether p holds back tasks of kind in queue at now.
func (p Pause) Covers(queue, kind string, now time.Time) bool {
	return (p.Queue == "" || p.Queue == queue) && (p.Kind == "" || p.Kind == kind) && (p.Until.IsZero() || p.Until.After(now))
}

func blocked(s Slots) string {
	words := fmt.Sprintf("its limit %q lets %d run at the same time", s.Key, s.Max)
	for i, h := range s.Running {
		if i == 5 {
			return words + fmt.Sprintf(", and %d more", len(s.Running)-i)
		}
		words += fmt.Sprintf("; task %d does, on %s pid %d, since %s", h.ID, h.Worker.Host, h.Worker.PID, h.Since.UTC().Format(time.RFC3339))
	}
	return words
}

// does says whether the worker could be given t.
func (w *Process) does(t Task) bool {
	return slices.Contains(w.Queues, t.Queue) && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, t.Kind))
}

// occupied says whether nobody who could take it has room.
func occupied(t Task, workers []Process) []string {
	able, slots := 0, 0
	for _, w := range workers {
		if w.does(t) {
			if w.Running < w.Slots {
				return nil
			}
			able, slots = able+1, slots+w.Slots
		}
	}
	return []string{fmt.Sprintf("%s of %s could take it, and none is free", count(slots, "slot"), count(able, "worker"))}
}

// suspected says how a task is fetched with which a worker died (rule Q4): those like it may be before it.
func suspected(t Task) []string {
	switch {
	case !t.Suspect:
		return nil
	case t.Crashes == 0:
		return []string{"a worker died while it had it: a fetch takes one such task at a time"}
	}
	return []string{fmt.Sprintf("it took %s down: a worker takes one such task at a time, and the next one when that has ended", count(t.Crashes, "worker"))}
}

// unworked says whether any worker could take it.
func unworked(t Task, workers []Process) []string {
	served, known := false, false
	for _, w := range workers {
		served = served || slices.Contains(w.Queues, t.Queue)
		known = known || w.does(t)
	}
	switch {
	case !served:
		return []string{"no worker works queue " + t.Queue}
	case !known:
		return []string{"no worker of queue " + t.Queue + " knows kind " + t.Kind}
	}
	return nil
}
