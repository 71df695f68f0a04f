package history

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Join makes one list of ticks and runs, the latest first, of at most q.Max() entries. Each tick comes with its runs
// in the order in which they started. A run without a tick is an entry of its own. entry makes the entry of a tick
// (the zero Tick for a run without one), and add adds a run to it.
func Join[E any](ticks []tick.Tick, runs []run.Record, q Query, entry func(tick.Tick) E, add func(*E, run.Record)) []E {
	type line struct {
		at time.Time
		e  *E
	}
	type id struct {
		job string
		at  int64
	}
	var lines []line
	byTick := make(map[id]*E, len(ticks))
	for _, t := range ticks {
		e := entry(t)
		byTick[id{t.Job, t.At.UnixMicro()}] = &e
		lines = append(lines, line{t.At, &e})
	}
	for _, r := range slices.Backward(runs) { // the contract gives the latest first
		if !r.Tick.IsZero() {
			if e := byTick[id{r.Job, r.Tick.UnixMicro()}]; e != nil {
				add(e, r)
			}
			continue
		}
		if !q.To.IsZero() && !r.Started.Before(q.To) {
			continue
		}
		e := entry(tick.Tick{})
		add(&e, r)
		lines = append(lines, line{r.Started, &e})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.at.Compare(a.at) })
	out := make([]E, 0, min(len(lines), q.Max()))
	for _, l := range lines[:min(len(lines), q.Max())] {
		out = append(out, *l.e)
	}
	return out
}
