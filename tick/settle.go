package tick

import (
	"time"

	"github.com/dibs-run/dibs/run"
)

// Unaccounted are the instants of due, sorted, that no row accounts for.
func Unaccounted(due []time.Time, rows []Tick) []time.Time {
	var out []time.Time
	for _, at := range due {
		if !accounted(at, rows) {
			out = append(out, at)
		}
	}
	return out
}

// Unclaimed turns the scheduled instants due, sorted, that no row accounts for into closed rows
// with the given outcome: runs of neighbours become one range row with a count (rule T4).
func Unclaimed(job string, due []time.Time, rows []Tick, out run.Outcome, reason string) []Tick {
	var (
		gaps []Tick
		open = false
	)
	for _, at := range due {
		if accounted(at, rows) {
			open = false
			continue
		}
		if !open {
			gaps = append(gaps, Tick{Job: job, At: at, Count: 1, State: Closed, Outcome: out, Reason: reason, Inferred: true})
			open = true
			continue
		}
		g := &gaps[len(gaps)-1]
		g.Through, g.Count = at, g.Count+1
	}
	return gaps
}

func accounted(at time.Time, rows []Tick) bool {
	for _, r := range rows {
		if r.At.Equal(at) || (!r.Through.IsZero() && r.At.Before(at) && !r.Through.Before(at)) {
			return true
		}
	}
	return false
}
