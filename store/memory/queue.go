package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// tasks is b's side of driver.Store, admin that of driver.Admin.
type (
	tasks struct{ *queueState }
	admin struct{ *queueState }
)

// A queueState has all that a backend knows of queues. The backend's lock guards it. Every task is filed by its
// state, in exactly one place: see file. Code that changes what a task is sorted by pulls it out first, and files it
// again.
type queueState struct {
	b       *Backend
	last    task.ID
	ids     []task.ID // ascending; those of deleted tasks go when there are many
	tasks   map[task.ID]*taskRow
	subs    map[subQueueName]*subQueue
	limits  map[task.Hash]*limit
	keys    map[task.Hash]*taskRow // who holds a unique key
	workers map[lease.Ref]*worker
	pauses  map[subQueueName]driver.Pause
	rates   map[string]*lifecycle.Bucket
	counts  map[driver.Count]int64 // their N is 0

	expiry  taskHeap                 // waiting tasks, by ExpiresAt
	windows taskHeap                 // succeeded tasks that still hold their key, by its end
	ended   map[task.State]*taskHeap // other final tasks, by Ended
	hints   map[string]map[chan struct{}]bool
}

// A subQueueName is a queue and a kind. In a pause, either may be empty.
type subQueueName struct{ queue, kind string }

// taskRow is the row of a task.
type taskRow struct {
	lifecycle.Task
	limit *limit // nil where it has none
	// Its positions: in the heap of its state, among the nominees of its line, and in expiry.
	at, nominated, expires int
}

// worker is a process with the tasks that it has.
type worker struct {
	driver.Process
	running map[task.ID]*taskRow
}

func newQueueState(b *Backend) *queueState {
	d := &queueState{b: b, tasks: map[task.ID]*taskRow{}, subs: map[subQueueName]*subQueue{}, limits: map[task.Hash]*limit{},
		keys: map[task.Hash]*taskRow{}, workers: map[lease.Ref]*worker{}, pauses: map[subQueueName]driver.Pause{},
		rates: map[string]*lifecycle.Bucket{}, counts: map[driver.Count]int64{}, ended: map[task.State]*taskHeap{},
		hints: map[string]map[chan struct{}]bool{}}
	d.expiry = taskHeap{before: func(x, y *taskRow) bool { return x.ExpiresAt.Before(y.ExpiresAt) }, pos: func(t *taskRow) *int { return &t.expires }}
	d.windows = taskHeap{before: func(x, y *taskRow) bool { return x.Window.Before(y.Window) }, pos: position}
	for _, s := range task.States {
		if s.Final() {
			d.ended[s] = &taskHeap{before: func(x, y *taskRow) bool { return x.Ended.Before(y.Ended) }, pos: position}
		}
	}
	return d
}

// on does one atomic step on the queues.
func on[T any](ctx context.Context, d *queueState, do func(now time.Time) T) (T, error) {
	return step(ctx, d.b, do)
}

// ranks is the order within a queue: moved to the front, priority, id.
func ranks(x, y *taskRow) bool {
	switch {
	case x.Front != y.Front:
		return x.Front
	case x.Priority != y.Priority:
		return x.Priority > y.Priority
	}
	return x.ID < y.ID
}

// record writes an event, in the step of what it tells of.
func (d *queueState) record(kind, reason string, now time.Time) {
	d.b.record(history.Event{Kind: kind, Reason: reason}, now)
}

// told is a copy of t for a caller: it shares nothing with the queues.
func (t *taskRow) told() driver.Task {
	out := t.Task.Task
	out.Spec = t.Spec.Clone()
	out.Worker = cloneWorker(t.Worker)
	out.History = nil
	return out
}
