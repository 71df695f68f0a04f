package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Watching a queue.
//
// A fetch that comes back with less than it asked for arms the row of its queue. From then on the next enqueue
// notifies, once, and disarms it. So a busy queue is never notified of. A task that was enqueued between the fetch
// and the arming is notified to nobody: therefore the process that armed looks once more.
//
// An enqueue notifies after its own commit, in a step of its own, for many enqueues at once. NOTIFY within the commit
// would make all commits wait for each other. And a look at the row before the commit could miss an arming that comes
// before the commit.

// pace is the least time between two tellings of one process where somebody waited to be told, unheard where nobody
// did: then all workers are busy, or poll.
const (
	pace    = time.Millisecond
	unheard = 10 * time.Millisecond
)

// Watch is driver.Store's.
func (t tasks) Watch(ctx context.Context, queues []string) (<-chan struct{}, error) {
	l := t.watch
	if l.deaf {
		return nil, nil
	}
	numbers := column(queues, t.names.queue)
	c := make(chan struct{}, 1) // one waiting hint is as good as many
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.done.Err(); err != nil {
		return nil, t.db.fail("watch", err)
	}
	for _, q := range numbers {
		if l.queues[q] == nil {
			l.queues[q] = map[chan struct{}]bool{}
		}
		l.queues[q][c] = true
	}
	l.attend()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, q := range numbers {
			if delete(l.queues[q], c); len(l.queues[q]) == 0 {
				delete(l.queues, q)
			}
		}
		l.leave()
	})
	return c, nil
}

// heard passes a notification on to its watchers.
func (l *listener) heard(payload string) {
	var q int64
	if strings.HasPrefix(payload, "queue ") {
		if _, err := fmt.Sscan(payload[len("queue "):], &q); err == nil {
			l.wakeQueues([]int64{q})
		}
		return
	}
	l.wake(payload)
}

// wakeQueues hints to the watchers of some queues, or with none to all.
func (l *listener) wakeQueues(some []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q, watchers := range l.queues {
		if len(some) > 0 && !slices.Contains(some, q) {
			continue
		}
		for c := range watchers {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

// tell wakes the watchers of queues, here at once and elsewhere soon.
func (l *listener) tell(queues []int64) {
	if len(queues) == 0 {
		return
	}
	l.wakeQueues(queues)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done.Err() != nil {
		return
	}
	if l.untold == nil {
		l.untold = map[int64]bool{}
		l.stopped.Add(1)
		go l.tellAll()
	}
	for _, q := range queues {
		l.untold[q] = true
	}
}

// tellAll tells until there is nothing more to tell.
func (l *listener) tellAll() {
	defer l.stopped.Done()
	for {
		l.mu.Lock()
		queues := slices.Collect(maps.Keys(l.untold))
		if len(queues) == 0 {
			l.untold = nil
			l.mu.Unlock()
			return
		}
		clear(l.untold)
		l.mu.Unlock()
		pause, told := unheard, 0
		// It is a hint: a waiting caller polls as well.
		if l.rows.db.run(l.done, "tell of queues", do(sqlEnqueue()[3], queues, false).each(number1(&told))) == nil && told > 0 {
			pause = pace
		}
		select {
		case <-l.done.Done():
		case <-time.After(pause):
		}
	}
}

// arm makes the next enqueue into queues that we watch notify us, and then makes our watchers look once more.
func (l *listener) arm(queues []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done.Err() != nil || !slices.ContainsFunc(queues, func(q int64) bool { return len(l.queues[q]) > 0 }) {
		return
	}
	if l.arming { // of which others may be left
		l.unarmed = append(l.unarmed, queues...)
		slices.Sort(l.unarmed)
		l.unarmed = slices.Compact(l.unarmed)
		return
	}
	l.arming = true
	l.stopped.Add(1)
	go func() {
		defer l.stopped.Done()
		err := l.rows.db.run(l.done, "watch queues", do("SELECT set_config('synchronous_commit', 'off', true)"), do(sqlWork()[5], queues, watched.Microseconds()))
		l.mu.Lock()
		others := slices.DeleteFunc(l.unarmed, func(q int64) bool { return err == nil && slices.Contains(queues, q) })
		l.arming, l.unarmed = false, nil
		l.mu.Unlock()
		if err == nil {
			l.wakeQueues(queues)
			l.arm(others)
		}
	}()
}
