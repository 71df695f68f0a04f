package tick

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/run"
)

// Unaccounted returns the instants of due, which is sorted, that no row accounts for.
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

// Unclaimed turns the scheduled instants due, sorted, that no row accounts for into closed rows with the given
// outcome: neighbouring instants become one range row with a count (rule T4).
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

// accounts returns a function that reports whether a row accounts for an instant; call it with the instants in
// order. There may be ten thousand rows and instants: none is looked at twice.
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

// InParts settles at most that many rows per step. Each step raises the mark to just before the first row that it
// leaves to the next steps, and so accounts for everything below. settle returns the mark after the step. The steps
// end if something holds the mark back, or another process has raised it. The answer is the first step's.
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

// Last returns the last tick of a row, which may be a range.
func (t *Tick) Last() time.Time {
	if t.Through.After(t.At) {
		return t.Through
	}
	return t.At
}

// JudgeSettle decides a settling of job. above are the rows after its mark, up to r.To at least, in the order of
// their instants; the zero job is not registered. It returns the job as it is afterwards, and the rows to insert if
// they do not exist yet.
func JudgeSettle(r SettleRequest, job Job, above []Tick, now time.Time) (s Status, next Job, insert []Tick) {
	if !r.Fits(job) {
		return Taken, job, nil
	}
	to := r.upTo(above)
	for _, row := range r.Rows {
		if micro(row.Last()).After(to) {
			continue
		}
		t := Tick{Job: r.Job, At: micro(row.At), Through: micro(row.Through), Count: row.Count, State: Closed,
			Outcome: row.Outcome, Reason: row.Reason, Inferred: row.Inferred, Ended: micro(row.Ended)}
		if t.Ended.IsZero() {
			t.Ended = now
		}
		insert = append(insert, t)
	}
	if job.Mark.Before(to) {
		job.Mark = to
	}
	return Won, job, insert
}

// Fits reports whether the request was made for the job as it is now; the zero job is not registered.
func (r SettleRequest) Fits(job Job) bool {
	return job.Generation != 0 && job.Mark.Equal(micro(r.From)) && (r.Generation == 0 || r.Generation == job.Generation)
}

// upTo returns how far the mark may be raised: to just before the oldest unfinished tick above it, and before a
// range that would cover a tick with a row of its own, which would then have two outcomes.
func (r SettleRequest) upTo(above []Tick) time.Time {
	to := micro(r.To)
	before := func(at time.Time) {
		if at = micro(at).Add(-time.Microsecond); at.Before(to) {
			to = at
		}
	}
	if i := slices.IndexFunc(above, func(t Tick) bool { return t.State != Closed }); i >= 0 {
		before(above[i].At)
	}
	for _, row := range r.Rows {
		i, _ := slices.BinarySearchFunc(above, micro(row.At), func(t Tick, at time.Time) int { return t.At.Compare(at) })
		if !row.Through.IsZero() && i < len(above) && !above[i].At.After(row.Through) {
			before(row.At)
		}
	}
	for _, row := range LatestFirst(r.Rows) {
		if !micro(row.At).After(to) && micro(row.Last()).After(to) {
			before(row.At)
		}
	}
	return to
}

// LatestFirst sorts rows for lowering a mark. The mark is lowered to before each row that it would cut in two, and
// such a row is left for the next time. That may lower it into an overlapping row, but only into one that begins
// earlier. So in this order each row is looked at once, and no row below the mark is left out.
func LatestFirst(rows []Tick) []Tick {
	return slices.SortedFunc(slices.Values(rows), func(x, y Tick) int { return y.At.Compare(x.At) })
}

// Splits reports whether a range row is still as it was read, so that it may be split.
func (r SplitRequest) Splits(t Tick) bool {
	return t.State != "" && !t.Through.IsZero() && t.Through.Equal(micro(r.Row.Through)) && t.Count == r.Row.Count
}
