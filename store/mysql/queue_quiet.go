package mysql

import (
	"sync"
	"time"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// While somebody holds an old snapshot (a dump, a report), InnoDB keeps the index entries of all that was done, and
// a look that finds nothing walks over every one of them: only a live row stops it, not the end of its range. So a
// look that found nothing and cost the server much, several times in a row, is not repeated at once. Looks then take
// a small share of the server, however long the snapshot is held.
const (
	// costly is what a look takes of the server's time before it counts as dear, dearLooks how many of them in a
	// row: one may be slow for any reason.
	costly    = 20 * time.Millisecond
	dearLooks = 3
	// A look is left out for restShare times as long as it took, and mostQuiet at most. A task that another process
	// enqueues meanwhile waits for so long.
	restShare = 20
	mostQuiet = time.Second
)

// quiet are the looks that this process leaves out for a while.
type quiet struct {
	mu    sync.Mutex
	looks map[look]dear
	busy  map[int64]time.Time // sub-queues in which there was something last, and when
}

// look is a class of tasks in a sub-queue: what one statement of a fetch looks for.
type look struct {
	sub   int64
	class int
}

type dear struct {
	times int
	until time.Time // on this process's clock
}

// skips says whether a look is to be left out.
func (q *quiet) skips(l look, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Before(q.looks[l].until)
}

// saw takes in what looks found, and how much of the server's time they took together.
func (q *quiet) saw(looks map[look]bool, cost time.Duration, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l, found := range looks {
		if found || cost < costly {
			delete(q.looks, l)
			continue
		}
		d := q.looks[l]
		if d.times = min(d.times+1, dearLooks); d.times == dearLooks {
			d.until = now.Add(min(restShare*cost, mostQuiet))
		}
		if q.looks == nil {
			q.looks = map[look]dear{}
		}
		q.looks[l] = d
	}
}

// heed has a sub-queue looked at again: this process knows that there is something.
func (q *quiet) heed(sub int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for class := range lifecycle.Classes {
		delete(q.looks, look{sub, class})
	}
	q.mark(sub, time.Now())
}

func (q *quiet) mark(sub int64, now time.Time) {
	if q.busy == nil {
		q.busy = map[int64]time.Time{}
	}
	q.busy[sub] = now
}

// turned notes in which sub-queues a fetch that asked then has found something.
func (q *quiet) turned(looks map[look]bool, asked time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	some := map[int64]bool{}
	for l, found := range looks {
		some[l.sub] = some[l.sub] || found
	}
	for sub, found := range some {
		if found {
			q.mark(sub, asked)
		} else if q.busy[sub].Before(asked) { // else this process has put something there since
			delete(q.busy, sub)
		}
	}
}

// isBusy reports whether there was something in a sub-queue last.
func (q *quiet) isBusy(sub int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.busy[sub].IsZero()
}

// heedEach does so for what was enqueued.
func (q *quiet) heedEach(specs []task.Spec) {
	seen := map[subQueueName]bool{}
	for i := range specs {
		at := subQueueName{specs[i].Queue, specs[i].Kind}
		if !seen[at] {
			seen[at] = true
			q.heed(subQueueNumber(at))
		}
	}
}

// heedChanges does so for what a step made available.
func (b *txn) heedChanges(tasks []*taskRow) {
	for _, t := range tasks {
		if t.State == task.Available {
			b.q.known.quiet.heed(t.sub)
		}
	}
	for _, f := range b.flips {
		if f.to == task.Available {
			b.q.known.quiet.heed(f.sub)
		}
	}
}
