package lease

import (
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
)

// storeTime extrapolates the store's clock on this machine's boot clock (rule L12). Every reply
// of the store is a sample: it was made between the sending and the receipt.
type storeTime struct {
	clock clock.Clock
	onGap func(step time.Duration)

	mu sync.Mutex
	// line is the newest line: store time = origin + boot. settled is the one that ticks follow.
	line, settled line
	stepped       time.Duration // the boot instant of the first sample off the settled line
}

// line maps the boot clock to the store's: at boot instant 0 the store's clock read low at the
// earliest and low+width at the latest.
type line struct {
	low   time.Time
	width time.Duration
	at    time.Duration
}

const (
	maxStep   = 5 * time.Second  // a step of the store's clock beyond this is an event
	stepQuiet = 60 * time.Second // ticks follow the old line for this long
	lineAge   = 30 * time.Second // an older sample gives way even to a less exact one
)

// sample takes in a reply: sent and received are boot instants.
func (s *storeTime) sample(now time.Time, sent, received time.Duration) {
	if now.IsZero() {
		return
	}
	next := line{low: now.Add(-received), width: received - sent, at: received}
	s.mu.Lock()
	step := s.take(next)
	s.mu.Unlock()
	if step != 0 && s.onGap != nil {
		go s.onGap(step) // a heartbeat waits for this sample
	}
}

// take returns the step where this sample is the first one that shows it.
func (s *storeTime) take(next line) (step time.Duration) {
	// Between two samples the clocks may drift; anything beyond is a step.
	off := gap(s.line, next)
	if s.line.low.IsZero() || off != 0 || next.width <= s.line.width || next.at-s.line.at > lineAge {
		s.line = next
	}
	off = gap(s.settled, next)
	switch {
	case s.settled.low.IsZero() || off.Abs() <= maxStep:
		s.settled, s.stepped = s.line, 0
	case s.stepped == 0:
		s.stepped = next.at
		return off
	case next.at-s.stepped >= stepQuiet:
		s.settled, s.stepped = s.line, 0
	}
	return 0
}

// gap is how far b lies outside what a allows: 0 where the two agree.
func gap(a, b line) time.Duration {
	if a.low.IsZero() {
		return 0
	}
	if d := b.low.Sub(a.low.Add(a.width)); d > 0 {
		return d
	}
	if d := b.low.Add(b.width).Sub(a.low); d < 0 {
		return d
	}
	return 0
}

// now is the earliest that the store's clock can read; ok is false before the first sample.
func (s *storeTime) now() (t time.Time, ok bool) {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line.low.Add(boot), !s.line.low.IsZero()
}

// known reports whether there was a sample.
func (s *storeTime) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.line.low.IsZero()
}

// estimate is the middle of what the store's clock can read, and half the width of that.
func (s *storeTime) estimate() (t time.Time, within time.Duration, ok bool) {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	half := s.line.width / 2
	return s.line.low.Add(boot + half), half, !s.line.low.IsZero()
}

// ticks is the store's time that schedules follow.
func (s *storeTime) ticks() (t time.Time, ok bool) {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled.low.Add(boot), !s.settled.low.IsZero()
}
