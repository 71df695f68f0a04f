package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxQueued bounds, in bytes, what waits to be printed.
	maxQueued = 1 << 20
	// stallTime is without how much progress an output counts as stalled.
	stallTime = 250 * time.Millisecond
	// flushTime is how long the end of a run waits for its lines to be printed.
	flushTime = time.Second
)

// A printer writes lines in the background, each in one call. A slow reader slows down those who
// print; one that does not read at all holds up nobody: lines are dropped then, and counted
// where they are missing. It is safe for concurrent use.
type printer struct {
	to io.Writer

	mu              sync.Mutex
	queue           [][]byte
	size            int // of the queue and of what is being written
	queued, written int // lines, ever
	dropped         int // lines, since the last notice
	stalled, busy   bool
	progress        chan struct{} // closed after each write
}

func newPrinter(to io.Writer) *printer { return &printer{to: to, progress: make(chan struct{})} }

// printer is the one that all jobs share, since they share the standard output.
func (s *service) printer() *printer {
	p, ok := s.stdout.(*printer)
	if !ok {
		p = newPrinter(s.stdout)
		s.stdout = p
	}
	return p
}

// Write prints p, as a line of its own.
func (p *printer) Write(line []byte) (int, error) {
	p.print(append([]byte{}, line...))
	return len(line), nil
}

// print queues a line, which is the printer's from now on.
func (p *printer) print(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.size > 0 && p.size+len(line) > maxQueued {
		if p.stalled || !p.advance(stallTime) {
			p.stalled = true
			p.dropped++
			return
		}
	}
	p.notice()
	p.push(line)
}

// advance waits for progress, without the lock; false if there is none.
func (p *printer) advance(within time.Duration) bool {
	progress := p.progress
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-progress:
		return true
	case <-time.After(within):
		return false
	}
}

// notice says what is missing at this point.
func (p *printer) notice() {
	if p.dropped > 0 {
		n := p.dropped
		p.dropped = 0
		p.push(fmt.Appendf(nil, "dibs: %d lines are missing here, since nobody read this output\n", n))
	}
}

func (p *printer) push(line []byte) {
	p.queue = append(p.queue, line)
	p.size += len(line)
	p.queued++
	if !p.busy {
		p.busy = true
		go p.drain()
	}
}

// drain writes until nothing is queued.
func (p *printer) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.queue) == 0 {
			p.notice()
		}
		if len(p.queue) == 0 {
			p.busy = false
			return
		}
		line := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		_, _ = p.to.Write(line) // a closed log must not stop the work
		p.mu.Lock()
		p.size -= len(line)
		p.written++
		p.stalled = false
		close(p.progress)
		p.progress = make(chan struct{})
	}
}

// flush waits until what was queued is written, but not for a stalled output.
func (p *printer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := time.Now().Add(flushTime)
	for last := p.queued; p.written < last && !p.stalled; {
		left := time.Until(end)
		if left <= 0 || !p.advance(left) {
			return
		}
	}
}
