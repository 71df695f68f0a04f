package tick

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/run"
)

// Unaccounted are the instants of due, sorted, that no row accounts for.
func Unaccounted(due []time.Time, rows []Tick) []time.Time {
	var out []time.Time
	accounted := accounts(rows)
	for _, at := range due {
		if !accounted(at) {
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
	accounted := accounts(rows)
	for _, at := range due {
		if accounted(at) {
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

// accounts says of instants, asked in their order, whether a row accounts for them. There may be ten
// thousand of either: none is looked at twice.
func accounts(rows []Tick) func(at time.Time) bool {
	type span struct{ from, through time.Time }
	spans := make([]span, len(rows))
	for i := range rows {
		r := &rows[i]
		if spans[i] = (span{r.At, r.At}); r.Through.After(r.At) {
			spans[i].through = r.Through
		}
	}
	slices.SortFunc(spans, func(x, y span) int { return x.from.Compare(y.from) })
	return func(at time.Time) bool {
		for len(spans) > 0 && spans[0].through.Before(at) {
			spans = spans[1:]
		}
		return len(spans) > 0 && !spans[0].from.After(at)
	}
}

// InParts settles at most so many rows in a step. Each step raises the mark to just before the first row that it leaves to the next
// ones, and so accounts for all that lies below; settle returns the mark as it then stands. Where something holds that up, or somebody
// else has raised it, the steps end. The answer is the first one's.
func (r SettleRequest) InParts(most int, settle func(SettleRequest) (Answer, time.Time, error)) (first Answer, err error) {
	rows := slices.SortedFunc(slices.Values(r.Rows), func(x, y Tick) int { return x.At.Compare(y.At) })
	for part := r; ; {
		part.Rows, part.To = rows[:min(len(rows), most)], r.To
		if rows = rows[len(part.Rows):]; len(rows) > 0 {
			part.To = rows[0].At.Truncate(time.Microsecond).Add(-time.Microsecond)
		}
		a, mark, err := settle(part)
		if first.Status == 0 {
			first = a
		}
		if err != nil || a.Status != Won || len(rows) == 0 || !mark.Equal(part.To) {
			return first, err
		}
		part.From = mark
	}
}
