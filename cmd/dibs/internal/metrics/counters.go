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
	ticks  counts     // by job
	tasks  counts     // by queue and kind
	errors counts     // by request
	lost   int        // leases
	delays *histogram // of the starts of ticks
	runs   histograms // by job: how long they took
	waits  histograms // by queue: tasks, until an attempt began
	works  histograms // by queue: attempts
	grants *histogram // of leases: how long that took
	asks   histograms // by request
}

// A name is what tells series of one kind apart, but for the outcome: a job, a queue, a queue and a kind, a request.
type name [2]string

// counts are by name, and then by outcome.
type counts map[name]map[string]int

// mostNamed bounds the names of a counter or histogram; what comes later counts under others. A name that is known
// has room for each outcome, of which there are a dozen.
const (
	mostNamed = 500
	others    = "(others)"
)

func (c counts) add(n int, of name, outcome string) {
	c.known(of)[outcome] += n
}

// known returns the counts of a name, which are at 0 if it is new.
func (c counts) known(of name, outcomes ...string) map[string]int {
	of = room(c, of)
	if c[of] == nil {
		c[of] = map[string]int{}
	}
	for _, o := range outcomes {
		c[of][o] += 0
	}
	return c[of]
}

func (c counts) clone() counts {
	by := make(counts, len(c))
	for n, outcomes := range c {
		by[n] = maps.Clone(outcomes)
	}
	return by
}

// room returns the name under which something is counted.
func room[V any](have map[name]V, of name) name {
	if _, known := have[of]; known || len(have) < mostNamed {
		return of
	}
	if of[1] != "" {
		return name{others, others}
	}
	return name{others}
}

// histograms of one kind.
type histograms struct {
	bounds []float64
	by     map[name]*histogram
}

// of returns the histogram of a name, which is empty if it is new.
func (h histograms) of(named string) *histogram {
	n := room(h.by, name{named})
	if h.by[n] == nil {
		h.by[n] = newHistogram(h.bounds)
	}
	return h.by[n]
}

func (h histograms) clone() histograms {
	by := make(map[name]*histogram, len(h.by))
	for n, x := range h.by {
		by[n] = x.clone()
	}
	return histograms{h.bounds, by}
}

// The bounds of histograms, in seconds: of requests, of how late things begin, and of work.
var (
	quick = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 2, 5}
	late  = []float64{0.05, 0.25, 1, 5, 15, 60, 300, 3600}
	work  = []float64{0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400}
)

// NewCounters returns counters that stand at 0.
func NewCounters() *Counters {
	of := func(bounds []float64) histograms { return histograms{bounds, map[name]*histogram{}} }
	return &Counters{
		began: time.Now(), ticks: counts{}, tasks: counts{}, errors: counts{},
		delays: newHistogram(late), runs: of(work), waits: of(late), works: of(work), grants: newHistogram(late), asks: of(quick),
	}
}

// The outcomes that a job, or a kind of task, has a number for before the first one: a rate needs it.
var (
	ofTicks = []string{"succeeded", "failed", "timed_out", "lost", "crashed", "missed", "skipped", "unavailable"}
	ofTasks = []string{"succeeded", "failed", "retried"}
)

// Know has jobs counted that have not run here yet.
func (c *Counters) Know(jobs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		c.ticks.known(name{j}, ofTicks...)
		c.runs.of(j)
	}
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
		c.asks.of(e.Name).add(e.Took.Seconds())
		c.errors.known(name{e.Name}, "failed")
		if e.Outcome == "failed" {
			c.errors.add(1, name{e.Name}, "failed")
		}
	}
}

func (c *Counters) cron(e observe.Event) {
	ofTick, ended := !e.Tick.IsZero(), e.On == observe.Ended || e.On == observe.Skipped
	switch {
	case e.On == observe.Started && ofTick:
		c.ticks.known(name{e.Name}, ofTicks...)
		if !e.Again { // else it tells how long nobody was there
			c.delays.add(e.Wait.Seconds())
		}
	case ended && ofTick && e.Outcome != observe.HandedOver:
		c.ticks.add(e.N(), name{e.Name}, e.Outcome)
	}
	if h := c.runs.of(e.Name); e.Took > 0 {
		h.add(e.Took.Seconds())
	}
}

func (c *Counters) task(e observe.Event) {
	of := name{e.Queue, e.Name}
	switch {
	case e.On == observe.Started:
		c.tasks.known(of, ofTasks...)
		c.waits.of(e.Queue).add(e.Wait.Seconds())
		c.works.of(e.Queue)
	case e.Queue == "": // crashed ones, whose names nobody knows
		c.tasks.add(e.N(), of, e.Outcome)
	default:
		c.tasks.add(e.N(), of, e.Outcome)
		c.works.of(e.Queue).add(e.Took.Seconds())
	}
}

// Write writes them in Prometheus' text format. Those of nil are none.
func (c *Counters) Write(w io.Writer) error {
	if c == nil {
		return nil
	}
	return c.clone().page().write(w)
}

// clone copies them, so that nobody who counts waits for a page.
func (c *Counters) clone() *Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Counters{
		began: c.began, ticks: c.ticks.clone(), tasks: c.tasks.clone(), errors: c.errors.clone(), lost: c.lost,
		delays: c.delays.clone(), runs: c.runs.clone(), waits: c.waits.clone(), works: c.works.clone(),
		grants: c.grants.clone(), asks: c.asks.clone(),
	}
}

func (c *Counters) page() *page {
	p := &page{}
	p.gauge("process_start_time_seconds", "When this process began; its counters began at 0 then.").set(seconds(c.began))
	c.ticks.on(p.counter("dibs_cron_ticks_total", "Ticks that ended, as this process wrote them to the store, by outcome.",
		"cron", "outcome"), 1)
	p.histogram("dibs_cron_start_delay_seconds",
		"How long after its instant a tick began here, unless it was caught up on or run again.").observe(c.delays)
	c.runs.on(p.histogram("dibs_run_duration_seconds", "How long runs of the job took that ended here.", "cron"))
	c.tasks.on(p.counter("dibs_task_finished_total",
		"Attempts at tasks that ended here, by outcome; after retried, postponed and returned there is another one.",
		"queue", "kind", "outcome"), 2)
	c.waits.on(p.histogram("dibs_task_wait_seconds", "How long tasks of the queue had been due when an attempt began here.", "queue"))
	c.works.on(p.histogram("dibs_task_duration_seconds", "How long attempts at tasks of the queue took that ended here.", "queue"))
	p.histogram("dibs_lease_acquire_seconds",
		"How long it took until a lease was granted to this process, with the wait for others.").observe(c.grants)
	p.counter("dibs_lease_lost_total", "Leases that this process lost while it held them.").set(float64(c.lost))
	c.asks.on(p.histogram("dibs_store_op_seconds", "How long requests about leases took, answered or not.", "op"))
	errors := p.counter("dibs_store_errors_total", "Requests about leases that failed.", "op")
	for n, outcomes := range sorted(c.errors) {
		errors.set(float64(outcomes["failed"]), n[0])
	}
	return p
}

// on puts them on a page, with so many labels beside the outcome.
func (c counts) on(f *family, labels int) {
	for n, outcomes := range sorted(c) {
		for _, o := range slices.Sorted(maps.Keys(outcomes)) {
			f.set(float64(outcomes[o]), append(slices.Clone(n[:labels]), o)...)
		}
	}
}

// on puts them on a page.
func (h histograms) on(f *family) {
	for n, x := range sorted(h.by) {
		f.observe(x, n[0])
	}
}

// sorted goes through a map in the order of its names.
func sorted[V any](m map[name]V) func(func(name, V) bool) {
	names := slices.SortedFunc(maps.Keys(m), func(a, b name) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return func(yield func(name, V) bool) {
		for _, n := range names {
			if !yield(n, m[n]) {
				return
			}
		}
	}
}
