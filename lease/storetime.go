package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
)

// storeTime extrapolates the store's clock on this machine's boot clock (rule L12). Every reply of the store is a
// sample: the store's clock read it between the sending and the receipt.
type storeTime struct {
	clock    clock.Clock
	onGap    func(step time.Duration)
	onSteady func() // hears, once after the first sample and after each step, that the clock has kept to its line

	mu sync.Mutex
	// line is the newest line: store time = origin + boot. settled is the one that ticks follow.
	line, settled line
	stepped       time.Duration // the boot instant of the first sample off the settled line
	// heard is the boot instant of the last sample, and since that of the first one after the last step.
	heard, since time.Duration
	told         bool          // onSteady has heard of this line
	quiet        time.Duration // the boot instant before which it hears of none
	jumps        []jump        // the latest, of which there are few
}

// jump is the time (from, to] over which the store's clock stepped forward.
type jump struct{ from, to time.Time }

// mostJumps bounds how many jumps are remembered.
const mostJumps = 8

// line maps the boot clock to the store's: at boot instant 0 the store's clock read low at the
// earliest and low+width at the latest.
type line struct {
	low   time.Time
	width time.Duration
	at    time.Duration
}

const (
	// MaxStep is the largest step of a store's clock that is treated as drift (rule L12).
	MaxStep = 5 * time.Second
	// StepQuiet is how long schedules follow the line on which the store's clock was before a larger step.
	StepQuiet = 60 * time.Second

	// MaxJump is the largest step forward whose ticks are caught up: ticks that a larger step jumps over are not.
	MaxJump = 15 * time.Minute

	lineAge = 30 * time.Second // an older sample gives way even to a less exact one
)

// sample records a reply: sent and received are boot instants.
func (s *storeTime) sample(now time.Time, sent, received time.Duration) {
	if now.IsZero() {
		return
	}
	next := line{low: now.Add(-received), width: received - sent, at: received}
	s.mu.Lock()
	step := s.take(next)
	s.heard = received
	tell := !s.told && s.keeps() && received >= s.quiet
	s.told = s.told || tell
	s.mu.Unlock()
	if tell && s.onSteady != nil {
		s.onSteady()
	}
	if step != 0 && s.onGap != nil {
		go s.onGap(step) // a heartbeat waits for this sample
	}
}

// take returns the step if this sample is the first one that shows it.
func (s *storeTime) take(next line) (step time.Duration) {
	// Between two samples the clocks may drift; anything beyond is a step.
	off := gap(s.line, next)
	if s.line.low.IsZero() || off.Abs() > MaxStep {
		s.stepped, s.since, s.told = 0, next.at, false // what is to persist begins here
	}
	if s.line.low.IsZero() || off != 0 || next.width <= s.line.width || next.at-s.line.at > lineAge {
		s.line = next
	}
	off = gap(s.settled, next)
	switch {
	case s.settled.low.IsZero() || off.Abs() <= MaxStep:
		s.settled, s.stepped = s.line, 0
	case s.stepped == 0:
		s.stepped = next.at
		return off
	case next.at-s.stepped >= StepQuiet:
		s.adopt(s.line, next.at)
	}
	return 0
}

// adopt makes the schedules follow another line. The time that the clock jumped over is remembered until the clock is
// back before it.
func (s *storeTime) adopt(next line, boot time.Duration) {
	from, to := s.settled.low.Add(boot), next.low.Add(boot)
	s.settled, s.stepped = next, 0
	if to.Sub(from) > MaxJump+MaxStep {
		s.jumps = append(s.jumps, jump{from, to})
		s.jumps = s.jumps[max(len(s.jumps)-mostJumps, 0):]
	}
	s.jumps = slices.DeleteFunc(s.jumps, func(j jump) bool { return !j.from.Before(to) })
	for i := range s.jumps {
		if s.jumps[i].to.After(to) {
			s.jumps[i].to = to
		}
	}
}

// jumped reports whether an instant is one that the store's clock jumped over.
func (s *storeTime) jumped(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.jumps, func(j jump) bool { return at.After(j.from) && !at.After(j.to) })
}

// leapt returns the total time that the store's clock jumped over.
func (s *storeTime) leapt() (d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jumps {
		d += j.to.Sub(j.from)
	}
	return d
}

// gap returns how far b is outside what a allows: 0 if the two agree.
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

// now returns the earliest that the store's clock can read; ok is false before the first sample.
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

// estimate returns the middle of what the store's clock can read, and half the width of that.
func (s *storeTime) estimate() (t time.Time, within time.Duration, ok bool) {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	half := s.line.width / 2
	return s.line.low.Add(boot + half), half, !s.line.low.IsZero()
}

// passed returns the earliest that the store's clock can read, or the time that schedules follow if that is earlier.
func (s *storeTime) passed() time.Time {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled.low.Before(s.line.low) {
		return s.settled.low.Add(boot)
	}
	return s.line.low.Add(boot)
}

// steady reports whether the store's clock has kept to one line for as long as a step has to last.
func (s *storeTime) steady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeps()
}

func (s *storeTime) keeps() bool {
	return !s.line.low.IsZero() && s.stepped == 0 && s.heard-s.since >= StepQuiet
}

// tellAgain calls onSteady once more, after as long as a step has to last.
func (s *storeTime) tellAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.quiet = false, s.heard+StepQuiet
}

// age returns how long ago the store last answered.
func (s *storeTime) age() time.Duration {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	return boot - s.heard
}

// ticks returns the store's time that schedules follow.
func (s *storeTime) ticks() (t time.Time, ok bool) {
	boot := s.clock.Boot()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled.low.Add(boot), !s.settled.low.IsZero()
}
