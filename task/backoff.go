package task

import (
	"math"
	"math/rand/v2"
	"time"
)

// Backoff is the pause between attempts. It applies to errors, never to contention (promise 20).
type Backoff struct {
	// List, if not empty, has the pauses after the first, second, … failed attempt; the last one applies to all that
	// follow.
	List []time.Duration `json:"list,omitempty"`
	// Base is the pause after the first failed attempt. Each further failure multiplies it by Factor, up to Cap.
	// Defaults: 1 s, 2, 1 h.
	Base   time.Duration `json:"base,omitempty"`
	Factor float64       `json:"factor,omitempty"`
	Cap    time.Duration `json:"cap,omitempty"`
	// NoJitter makes pauses exact. Otherwise each is drawn from the upper half of its exact value, so that tasks
	// which failed together do not come back together.
	NoJitter bool `json:"no_jitter,omitempty"`
}

// After returns the pause after the n-th failed attempt, n from 1.
func (b Backoff) After(n int) time.Duration {
	d := b.exact(max(n, 1))
	if b.NoJitter || d <= 0 {
		return d
	}
	return d - rand.N(d/2+1)
}

func (b Backoff) exact(n int) time.Duration {
	if len(b.List) > 0 {
		return b.List[min(n, len(b.List))-1]
	}
	base, factor, limit := b.Base, b.Factor, b.Cap
	if base <= 0 {
		base = time.Second
	}
	if factor < 1 {
		factor = 2
	}
	if limit <= 0 {
		limit = time.Hour
	}
	if d := float64(base) * math.Pow(factor, float64(n-1)); d < float64(limit) {
		return time.Duration(d)
	}
	return limit
}
