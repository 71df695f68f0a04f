package metrics

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/observe"
)

// Counters count what a process does from its start on. Those of several processes can be added up: each end is
// counted by one of them.
type Counters struct {
	began time.Time

	mu     sync.Mutex
	ticks  counts     // by job and outcome
	tasks  counts     // by queue, kind and outcome
	errors counts     // by request
	lost   int        // leases
	delays histogram  // of the starts of ticks
	runs   histograms // by job: how long they took
	waits  histograms // by queue: tasks, until an attempt began
	works  histograms // by queue: attempts
	grants histogram  // of leases: how long that took
	asks   histograms // by request
}

// labels are up to three values that tell series apart.
type labels [3]string

type counts map[labels]int

// mostNamed bounds the series of a counter or histogram; what comes later counts under others.
const (
	mostNamed = 500
	others    = "(others)"
)

func (c counts) add(n int, l labels) { c[room(c, l)] += n }

// room returns the labels under which something is counted. An outcome, the last of several labels, is one of a few,
// and stays where there is no room.
func room[V any](have map[labels]V, l labels) labels {
	if _, known := have[l]; known || len(have) < mostNamed {
		return l
	}
	if l[2] != "" {
		return labels{others, others, l[2]}
	}
	return labels{others, l[1]}
}

// histograms of one kind.
type histograms struct {
	bounds []float64
	by     map[labels]*histogram
}

func (h histograms) add(d time.Duration, name string) {
	l := room(h.by, labels{name})
	if h.by[l] == nil {
		h.by[l] = &histogram{bounds: h.bounds}
	}
	h.by[l].add(d.Seconds())
}

// The bounds of histograms, in seconds: of requests, of how late things begin, and of work.
var (
	quick = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 2, 5}
	late  = []float64{0.05, 0.25, 1, 5, 15, 60, 300, 3600}
	work  = []float64{0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400}
)

// NewCounters returns counters that stand at 0.
func NewCounters() *Counters {
	of := func(bounds []float64) histograms { return histograms{bounds, map[labels]*histogram{}} }
	return &Counters{began: time.Now(), ticks: counts{}, tasks: counts{}, errors: counts{}, delays: histogram{bounds: late},
		runs: of(work), waits: of(late), works: of(work), grants: histogram{bounds: late}, asks: of(quick)}
}

// Observe counts an event. It is safe for concurrent use.
func (c *Counters) Observe(e observe.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Of {
	case observe.Cron:
		c.cron(e)
	case observe.Task:
		c.task(e)
	case observe.Lease:
		if e.On == observe.Lost {
			c.lost++
		} else {
			c.grants.add(e.Wait.Seconds())
		}
	case observe.Request:
		c.asks.add(e.Took, e.Name)
		if e.Outcome == "failed" {
			c.errors.add(1, labels{e.Name})
		}
	}
}

func (c *Counters) cron(e observe.Event) {
	if !e.Tick.IsZero() && e.On == observe.Started {
		c.delays.add(e.Wait.Seconds())
	}
	if !e.Tick.IsZero() && e.On != observe.Started {
		c.ticks.add(e.N(), labels{e.Name, e.Outcome})
	}
	if e.On == observe.Ended && e.Took > 0 {
		c.runs.add(e.Took, e.Name)
	}
}

func (c *Counters) task(e observe.Event) {
	switch {
	case e.On == observe.Started:
		c.waits.add(e.Wait, e.Queue)
	default:
		c.tasks.add(e.N(), labels{e.Queue, e.Name, e.Outcome})
		if e.Queue != "" {
			c.works.add(e.Took, e.Queue)
		}
	}
}

// Write writes them in Prometheus' text format. Those of nil are none.
func (c *Counters) Write(w io.Writer) error {
	if c == nil {
		return nil
	}
	return c.page().write(w)
}

func (c *Counters) page() *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &page{}
	p.gauge("process_start_time_seconds", "When this process began; its counters began at 0 then.").set(seconds(c.began))
	ticks := p.counter("dibs_cron_ticks_total", "Ticks that ended, as this process wrote them to the store, by outcome.", "cron", "outcome")
	for l, n := range sorted(c.ticks) {
		ticks.set(float64(n), l[:2]...)
	}
	p.histogram("dibs_cron_start_delay_seconds", "How long after its instant a tick began here.").observe(&c.delays)
	c.runs.on(p.histogram("dibs_run_duration_seconds", "How long runs of the job took that ended here.", "cron"))
	tasks := p.counter("dibs_task_finished_total", "Attempts at tasks that ended here, by outcome; after retried, postponed and returned there is another one.", "queue", "kind", "outcome")
	for l, n := range sorted(c.tasks) {
		tasks.set(float64(n), l[:]...)
	}
	c.waits.on(p.histogram("dibs_task_wait_seconds", "How long tasks of the queue had been due when an attempt began here.", "queue"))
	c.works.on(p.histogram("dibs_task_duration_seconds", "How long attempts at tasks of the queue took that ended here.", "queue"))
	p.histogram("dibs_lease_acquire_seconds", "How long it took until a lease was granted to this process, with the wait for others.").observe(&c.grants)
	p.counter("dibs_lease_lost_total", "Leases that this process lost while it held them.").set(float64(c.lost))
	c.asks.on(p.histogram("dibs_store_op_seconds", "How long requests about leases took, answered or not.", "op"))
	errors := p.counter("dibs_store_errors_total", "Requests about leases that failed.", "op")
	for l := range sorted(c.asks.by) {
		errors.set(float64(c.errors[l]), l[0])
	}
	return p
}

// on puts them on a page.
func (h histograms) on(f *family) {
	for l, x := range sorted(h.by) {
		f.observe(x, l[0])
	}
}

// sorted goes through a map in the order of its labels.
func sorted[V any](m map[labels]V) func(func(labels, V) bool) {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b labels) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]))
	})
	return func(yield func(labels, V) bool) {
		for _, l := range keys {
			if !yield(l, m[l]) {
				return
			}
		}
	}
}
