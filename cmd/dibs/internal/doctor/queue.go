package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// The bounds of what is usual in a queue.
const (
	longPause = 24 * time.Hour
	longWait  = time.Hour
)

// Queues looks for tasks that nobody will do, or not soon. Now is the store's.
func Queues(ctx context.Context, where string, q driver.Admin, now time.Time) (all []Finding, err error) {
	subs, err := q.Queues(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := q.Workers(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := q.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		if age := now.Sub(p.Since); age > longPause {
			all = append(all, found(Warning, "queue-paused", where, "`dibs queue resume` ends it; a pause with `dibs queue pause --for` ends by itself.",
				"%s has been paused for %s, by %s%s.", paused(p), age.Round(time.Minute), p.By, because(p.Why)))
		}
	}
	for _, l := range subs {
		all = append(all, subQueue(where, l, workers, pauses, now)...)
	}
	blocked, err := blockedFor(ctx, where, q, now)
	return append(all, blocked...), err
}

// subQueue judges one kind of task in one queue. Nothing is said of what a pause explains.
func subQueue(where string, l driver.SubQueue, workers []driver.Process, pauses []driver.Pause, now time.Time) []Finding {
	waiting := 0
	for state, n := range l.Depth {
		if state.Waiting() {
			waiting += n
		}
	}
	covered := slices.ContainsFunc(pauses, func(p driver.Pause) bool {
		return p.Covers(l.Queue, l.Kind, now)
	})
	if waiting == 0 || covered {
		return nil
	}
	if !slices.ContainsFunc(workers, func(w driver.Process) bool {
		return slices.Contains(w.Queues, l.Queue) && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, l.Kind))
	}) {
		return []Finding{found(Warning, "queue-unworked", where, "Start a worker for it: `dibs work "+l.Queue+" -- COMMAND`, or queue.Worker.",
			"Tasks of kind %s wait in queue %s (%d of them), and no live worker handles them.", l.Kind, l.Queue, waiting)}
	}
	if age := now.Sub(l.Oldest); !l.Oldest.IsZero() && age > longWait {
		return []Finding{found(Warning, "queue-waiting", where, "Start more workers or slots; `dibs queue show "+l.Queue+"` has the numbers, `dibs task show ID` says why one waits.",
			"The oldest task of kind %s in queue %s has waited for %s since it was due.", l.Kind, l.Queue, age.Round(time.Minute))}
	}
	return nil
}

// blockedFor tells of the first blocked task, if it has waited for its limit for long.
func blockedFor(ctx context.Context, where string, q driver.Admin, now time.Time) ([]Finding, error) {
	first, err := q.Tasks(ctx, driver.Filter{States: []task.State{task.Blocked}, Max: 1})
	if err != nil || len(first) == 0 {
		return nil, err
	}
	t, held, ok, err := q.Task(ctx, first[0].ID)
	if err != nil || !ok || t.State != task.Blocked || len(held.Running) == 0 {
		return nil, err // what nobody runs waits for something else, such as the end of a pause
	}
	age := now.Sub(t.RunAt)
	if age <= longWait {
		return nil, nil
	}
	return []Finding{found(Info, "queue-blocked", where, "",
		"Task %d has waited for %s for a slot of its limit %q: %d of %d run, %d wait.", t.ID, age.Round(time.Minute), held.Key, len(held.Running), held.Max, held.Waiting)}, nil
}

func paused(p driver.Pause) string {
	switch {
	case p.Queue == "" && p.Kind == "":
		return "Everything"
	case p.Kind == "":
		return "Queue " + p.Queue
	case p.Queue == "":
		return "Kind " + p.Kind
	}
	return "Kind " + p.Kind + " in queue " + p.Queue
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
