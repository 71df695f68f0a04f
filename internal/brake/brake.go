// Package brake keeps a process that cannot start anything from taking work that others could do.
package brake

import (
	"sync"
	"time"
)

// The shortest and the longest pause. Each failure after a pause doubles it.
const (
	Shortest = time.Second
	Longest  = time.Minute
)

// A Brake is on from the first failure to start something until something has been started that was taken later.
// While it is on, one thing is tried after each pause. The zero Brake is off. It is safe for concurrent use.
type Brake struct {
	mu     sync.Mutex
	pause  time.Duration // 0: it is off
	until  time.Time     // its end
	faults int           // so far
}

// Taken returns a mark for something that is taken now, for Fault or Started.
func (b *Brake) Taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// Fault records that something with this mark could not be started. What was taken before the last failure says
// nothing new. first is true if the brake was off.
func (b *Brake) Fault(taken int) (pause time.Duration, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if first = b.pause == 0; first || taken == b.faults {
		b.pause = min(max(2*b.pause, Shortest), Longest)
		b.until = time.Now().Add(b.pause)
		b.faults++
	}
	return b.pause, first
}

// Started records that something with this mark was started. If it was taken after the last failure, that releases the
// brake; released is false if the brake was off.
func (b *Brake) Started(taken int) (released bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if released = b.pause > 0 && taken == b.faults; released {
		b.pause, b.until = 0, time.Time{}
	}
	return released
}

// Left returns how long the pause still lasts; 0: it is over, or there is none.
func (b *Brake) Left() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(time.Until(b.until), 0)
}

// Try returns what Left does. After a pause only one caller gets 0: for the others the next pause has begun.
func (b *Brake) Try() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := max(time.Until(b.until), 0)
	if left == 0 && b.pause > 0 {
		b.until = time.Now().Add(b.pause)
	}
	return left
}

// Lately reports whether the brake is on and its pause lasts, or ended less than Longest ago. One that is on for
// longer is of something that nobody asks for any more, or seldom.
func (b *Brake) Lately() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause > 0 && time.Since(b.until) < Longest
}

// On reports whether the brake is on.
func (b *Brake) On() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause > 0
}
