package counters

import (
	"context"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

const (
	// tallyEvery is how long counts are gathered before they are written, and how long writing them may take. closing
	// is how long it may take at the end.
	tallyEvery = 5 * time.Second
	closing    = time.Second
	// mostCounted is how many sums one call writes.
	mostCounted = 1000
)

// A Tally gathers counts of one process and writes sums. A thousand duplicates of one key cost one write, and all of
// them are counted. It has no goroutine: a timer runs while there is something to write. It is safe for concurrent
// use.
type Tally struct {
	store  driver.Store
	mu     sync.Mutex
	counts map[counted]int64
	timer  *time.Timer
	closed bool
}

type counted struct {
	minute            int64
	queue, kind, name string
}

// New creates a Tally whose sums go to s every 5 s. Close it, so that the last ones are written.
func New(s driver.Store) *Tally { return &Tally{store: s, counts: map[counted]int64{}} }

// Add increments the counter of a name by one.
func (t *Tally) Add(queue, kind, name string) { t.addMany(queue, kind, name, 1) }

func (t *Tally) addMany(queue, kind, name string, n int64) {
	minute := time.Now().Unix() / 60
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[counted{minute, queue, kind, name}] += n
	t.arm()
}

// arm starts the timer if there is something to write.
func (t *Tally) arm() {
	if t.timer == nil && !t.closed && len(t.counts) > 0 {
		t.timer = time.AfterFunc(tallyEvery, t.flush)
	}
}

// Admitted counts the answers to specs.
func (t *Tally) Admitted(specs []task.Spec, answers []task.Enqueued) {
	eachAdmitted(specs, answers, t.addMany)
}

// Took counts a duration into the histogram of name.
func (t *Tally) Took(queue, kind, name string, d time.Duration) {
	t.Add(queue, kind, name+":"+bucket(d))
}

// bucket returns the upper bound in ms: the smallest power of two that is not below d.
func bucket(d time.Duration) string {
	ms := max(d.Milliseconds(), 0)
	return buckets[min(bits.Len64(uint64(ms)), len(buckets)-1)]
}

var buckets = func() (b [32]string) {
	for i := range b {
		b[i] = strconv.Itoa(1 << i)
	}
	return b
}()

// flush writes the sums. What the store does not accept is kept for the next time: no promise depends on when these
// numbers arrive.
func (t *Tally) flush() {
	t.mu.Lock()
	counts, most := t.counts, tallyEvery
	if t.closed {
		most = closing
	}
	t.counts, t.timer = map[counted]int64{}, nil
	t.mu.Unlock()
	all := make([]driver.Count, 0, len(counts))
	for c, n := range counts {
		all = append(all, driver.Count{Minute: time.Unix(c.minute*60, 0).UTC(), Queue: c.queue, Kind: c.kind, Name: c.name, N: n})
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	var err error
	for batch := range slices.Chunk(all, mostCounted) { // thousands of kinds have tens of thousands of sums
		if err = t.store.Count(ctx, batch); err != nil {
			break
		}
		for _, c := range batch {
			delete(counts, counted{c.Minute.Unix() / 60, c.Queue, c.Kind, c.Name})
		}
	}
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.counts)+len(counts) > 100_000 {
		return // the store has been away for hours
	}
	for c, n := range counts {
		t.counts[c] += n
	}
	t.arm()
}

// Close writes what is left. What is counted later is lost.
func (t *Tally) Close() {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.flush()
}
