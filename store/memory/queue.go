package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/life"
	"github.com/dibs-run/dibs/task"
)

// tasks is b's side of driver.Store, desk that of driver.Admin.
type (
	tasks struct{ *board }
	desk  struct{ *board }
)

// A board has all that a backend knows of queues. The backend's lock guards it. Every task is filed by its state, in
// exactly one place: see file. Code that changes what a task is sorted by pulls it out first, and files it again.
type board struct {
	b       *Backend
	last    task.ID
	ids     []task.ID // ascending; those of deleted tasks go when there are many
	tasks   map[task.ID]*taskRow
	lanes   map[place]*lane
	limits  map[task.Hash]*limit
	keys    map[task.Hash]*taskRow // who holds a unique key
	workers map[lease.Ref]*worker
	pauses  map[place]driver.Pause
	rates   map[string]*life.Bucket
	counts  map[driver.Count]int64 // their N is 0

	expiry  pile                 // waiting tasks, by ExpiresAt
	windows pile                 // succeeded tasks that still hold their key, by its end
	ended   map[task.State]*pile // other final tasks, by Ended
	hints   map[string]map[chan struct{}]bool
}

// A place is a queue and a kind. In a pause, either may be empty.
type place struct{ queue, kind string }

// taskRow is the row of a task.
type taskRow struct {
	life.Task
	limit *limit // nil where it has none
	// Its positions: in the pile of its state, among the nominees of its door, and in expiry.
	at, nominated, expires int
}

// worker is a process with the tasks that it has.
type worker struct {
	driver.Process
	running map[task.ID]*taskRow
}

func newBoard(b *Backend) *board {
	d := &board{b: b, tasks: map[task.ID]*taskRow{}, lanes: map[place]*lane{}, limits: map[task.Hash]*limit{},
		keys: map[task.Hash]*taskRow{}, workers: map[lease.Ref]*worker{}, pauses: map[place]driver.Pause{},
		rates: map[string]*life.Bucket{}, counts: map[driver.Count]int64{}, ended: map[task.State]*pile{},
		hints: map[string]map[chan struct{}]bool{}}
	d.expiry = pile{before: func(x, y *taskRow) bool { return x.ExpiresAt.Before(y.ExpiresAt) }, pos: func(t *taskRow) *int { return &t.expires }}
	d.windows = pile{before: func(x, y *taskRow) bool { return x.Window.Before(y.Window) }, pos: position}
	for _, s := range task.States {
		if s.Final() {
			d.ended[s] = &pile{before: func(x, y *taskRow) bool { return x.Ended.Before(y.Ended) }, pos: position}
		}
	}
	return d
}

// on does one atomic step on the board.
func on[T any](ctx context.Context, d *board, do func(now time.Time) T) (T, error) {
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
func (d *board) record(kind, reason string, now time.Time) {
	d.b.record(history.Event{Kind: kind, Reason: reason}, now)
}

// told is a copy of t for a caller: it shares nothing with the board.
func (t *taskRow) told() driver.Task {
	out := t.Task.Task
	out.Spec = t.Spec.Clone()
	out.Worker = cloneWorker(t.Worker)
	out.History = nil
	return out
}
