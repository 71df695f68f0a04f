package coalesce

import (
	"sync"
	"time"
)

// A Width is how many items of a batch a server can be asked to carry out in time, as far as it has shown. It
// begins in the middle, doubles when a full batch was answered soon, and is halved when one was not answered in
// time: what is asked again then comes in smaller parts, and a slow server gets through them. One item alone
// says nothing of many.
type Width struct {
	most int
	time time.Duration // in which a batch must be answered

	mu  sync.Mutex
	now int
}

const (
	firstWidth = 125
	leastWidth = 1
	// soonShare of its time is what a batch takes at most after which a larger one is tried.
	soonShare = 8
)

// NewWidth is that of batches which must be answered within a time.
func NewWidth(most int, within time.Duration) *Width {
	return &Width{most: most, time: within, now: min(most, firstWidth)}
}

// Now is how many items the next batch may have.
func (w *Width) Now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Learn takes in how long a batch of n items took, and whether it was answered, and returns what Now is then.
func (w *Width) Learn(n int, took time.Duration, answered bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !answered && n > 1:
		w.now = max(min(w.now, n/2), leastWidth)
	case n >= w.now && took < w.time/soonShare:
		w.now = min(2*w.now, w.most)
	}
	return w.now
}
