package doctor

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// longWait is how long a task may wait for a slot of its limit before somebody wants to know.
const longWait = time.Hour

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
	all = findings(where, status.Queues(subs, workers, pauses, now))
	blocked, err := blockedFor(ctx, where, q, now)
	return append(all, blocked...), err
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
