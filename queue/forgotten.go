package queue

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
)

// errForgotten ends the work of a task whose fetch the store does not know: after a failover, the new server had not
// received it yet.
var errForgotten = fmt.Errorf("the task's %w: the store does not know that this worker has it", lease.ErrLost)

// forget gives up the tasks that the session had before it asked the store what it runs, and that are not in the
// answer. The store gives them to another worker, and their slots to other tasks; after a failover not before a TTL
// has passed (rule Q5), which is several heartbeats.
func (s *session) forget(asked time.Time, mine []driver.RunningTask) {
	known := make(map[driver.Ref]bool, len(mine))
	for _, a := range mine {
		known[a.Ref] = true
	}
	s.mu.Lock()
	var lost []*item
	for _, it := range s.held {
		if it.since.Before(asked) && !known[it.Ref] && !it.completed.Load() {
			lost = append(lost, it)
		}
	}
	s.mu.Unlock()
	for _, it := range lost {
		s.lose(it)
	}
}

// lose ends the work of a task that this worker no longer has. It reports nothing: a report would be refused.
func (s *session) lose(it *item) {
	it.mu.Lock()
	first := !it.lost
	it.lost = true
	cancel := it.cancel
	it.mu.Unlock()
	if !first {
		return
	}
	s.w.log.Warn("giving up a task, because the store does not know that this worker has it", "event", "task-forgotten", "task", it.ID, "kind", it.Kind)
	s.w.tally.Add(it.Queue, it.Kind, counters.Stale)
	switch {
	case cancel != nil:
		cancel(errForgotten)
	case it.take():
		s.drop(it, false)
	}
}
