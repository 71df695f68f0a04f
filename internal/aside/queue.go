// Package aside does beside the work what the work must never wait for: it writes logs and prints lines. A caller
// that hands something over goes on at once, whatever becomes of it (promise 27).
package aside

import (
	"cmp"
	"sync"
	"time"
)

const (
	// defaultMost bounds a queue, in bytes.
	defaultMost = 1 << 20
	// defaultPatience is a queue's that names none.
	defaultPatience = 250 * time.Millisecond
)

// A Queue carries out functions in the order in which it is given them. It does so on a goroutine of its own, which
// lives only while there is something to do. A function that does not fit is dropped and counted. The zero Queue is
// ready for use. It is safe for concurrent use.
type Queue struct {
	// Most bounds the size, in bytes, of what waits or is being carried out. Default 1 MiB.
	Most int
	// Patience without any progress makes a full queue count as stalled. Default 250 ms.
	Patience time.Duration
	// Missing is called if something was dropped, in its place in the order, with the number dropped of each kind.
	// Nil: drops are not reported. Set it before the first use.
	Missing func(dropped map[string]int)

	mu       sync.Mutex
	folds    *folds // of the handlers that count what is alike; nil: none does
	waiting  []item
	size     int // of what waits, and of what is being carried out
	added    int // items, ever
	done     int // of them
	dropped  map[string]int
	stalled  bool // it was full, and nothing was carried out for Patience
	busy     bool // the goroutine lives
	progress chan struct{}
}

type item struct {
	size int
	do   func()
}

// Do hands over f and never waits. If f does not fit, it is dropped and counted under kind. Do reports whether f was
// taken.
func (q *Queue) Do(kind string, size int, f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fits(size) {
		q.drop(kind)
		return false
	}
	q.add(size, f)
	return true
}

// DoPaced is Do for a caller that may be slowed down: it waits for room as long as there is progress. If there is
// none for Patience, f is dropped, and so is what follows until there is progress again.
func (q *Queue) DoPaced(kind string, size int, f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.fits(size) {
		if q.stalled || !q.advance(cmp.Or(q.Patience, defaultPatience)) {
			q.stalled = true
			q.drop(kind)
			return false
		}
	}
	q.add(size, f)
	return true
}

// Flush waits until what was handed over before is carried out, but no longer than within, and not for a queue that
// is stalled already. It reports whether all of it was.
func (q *Queue) Flush(within time.Duration) bool {
	q.mu.Lock()
	folds := q.folds
	q.mu.Unlock()
	if folds != nil {
		folds.end()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	enough := time.NewTimer(within)
	defer enough.Stop()
	for last := q.added; q.done < last; {
		if q.stalled {
			return false
		}
		progress := q.next()
		q.mu.Unlock()
		select {
		case <-progress:
			q.mu.Lock()
		case <-enough.C:
			q.mu.Lock()
			return q.done >= last
		}
	}
	return true
}

// What follows is called with the lock held.

// fits says whether there is room; the first item always has some.
func (q *Queue) fits(size int) bool {
	most := q.Most
	if most == 0 {
		most = defaultMost
	}
	return q.size == 0 || q.size+size <= most
}

func (q *Queue) drop(kind string) {
	if q.dropped == nil {
		q.dropped = map[string]int{}
	}
	q.dropped[kind]++
}

func (q *Queue) add(size int, f func()) {
	q.notice()
	q.push(item{size, f})
}

// notice puts in what says how much is missing here.
func (q *Queue) notice() {
	if len(q.dropped) == 0 {
		return
	}
	dropped := q.dropped
	q.dropped = nil
	if missing := q.Missing; missing != nil {
		q.push(item{0, func() { missing(dropped) }})
	}
}

func (q *Queue) push(i item) {
	q.waiting = append(q.waiting, i)
	q.size += i.size
	q.added++
	if !q.busy {
		q.busy = true
		go q.drain()
	}
}

// next is closed at the next progress.
func (q *Queue) next() <-chan struct{} {
	if q.progress == nil {
		q.progress = make(chan struct{})
	}
	return q.progress
}

// advance waits for progress, without the lock; false if there is none. It waits in parts, so that the time in
// which this process itself got none, on a busy machine, counts as one of them and not as the stall of a
// reader.
func (q *Queue) advance(within time.Duration) bool {
	const parts = 5
	progress := q.next()
	q.mu.Unlock()
	defer q.mu.Lock()
	part := time.NewTicker(within / parts)
	defer part.Stop()
	for range parts {
		select {
		case <-progress:
			return true
		case <-part.C:
		}
	}
	return false
}

// drain carries out what waits until nothing does. It takes the lock itself.
func (q *Queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if len(q.waiting) == 0 {
			q.notice()
		}
		if len(q.waiting) == 0 {
			q.busy = false
			return
		}
		i := q.waiting[0]
		q.waiting[0] = item{} // what it refers to is not held any longer
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		i.do()
		q.mu.Lock()
		q.size -= i.size
		q.done++
		q.stalled = false
		if q.progress != nil {
			close(q.progress)
			q.progress = nil
		}
	}
}
