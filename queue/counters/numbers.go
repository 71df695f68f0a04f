package counters

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
)

// Numbers summarize the counters of a period for a queue, a kind, or everything.
type Numbers struct {
	Queue string `json:"queue,omitempty"`
	Kind  string `json:"kind,omitempty"`
	// Counts are the counts by name: see the names above.
	Counts map[string]int64 `json:"counts"`
	// PerSecond is how many tasks succeeded per second.
	PerSecond float64 `json:"succeeded_per_second"`
	// Wait is how long tasks waited once they were due, Work how long an attempt took.
	Wait Quantiles `json:"wait"`
	Work Quantiles `json:"work"`
}

// Quantiles are upper bounds, in seconds: half of all took at most P50. They are 0 if there is no data, and
// otherwise a power of two of milliseconds.
type Quantiles struct {
	N   int64   `json:"n"`
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`
}

// Summarize returns numbers per (queue, kind), sorted, from counters that cover d.
func Summarize(counts []driver.Count, d time.Duration) []Numbers {
	type sub struct{ queue, kind string }
	by := map[sub]map[string]int64{}
	for _, c := range counts {
		l := sub{c.Queue, c.Kind}
		if by[l] == nil {
			by[l] = map[string]int64{}
		}
		by[l][c.Name] += c.N
	}
	var all []Numbers
	for l, names := range by {
		n := Numbers{Queue: l.queue, Kind: l.kind, Counts: map[string]int64{}}
		for name, c := range names {
			if what, _, ok := strings.Cut(name, ":"); !ok || what != Wait && what != Work {
				n.Counts[name] = c
			}
		}
		if d > 0 {
			n.PerSecond = float64(names[Succeeded]) / d.Seconds()
		}
		n.Wait, n.Work = quantiles(names, Wait), quantiles(names, Work)
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Numbers) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// quantiles reads the histogram of name.
func quantiles(names map[string]int64, name string) (q Quantiles) {
	for _, b := range buckets {
		q.N += names[name+":"+b]
	}
	var below int64
	for i, b := range buckets {
		n := names[name+":"+b]
		if n == 0 {
			continue
		}
		below += n
		bound := float64(int64(1)<<i) / 1000
		if q.P50 == 0 && 2*below >= q.N {
			q.P50 = bound
		}
		if q.P99 == 0 && 100*below >= 99*q.N {
			q.P99 = bound
		}
		q.Max = bound
	}
	return q
}
