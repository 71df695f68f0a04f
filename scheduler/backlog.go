package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// Backlog lists what a back-fill would do with each tick of its range, the oldest first, until yield returns false.
// It leaves out future ticks.
func (b *Backend) Backlog(ctx context.Context, j *Job, fill Backfill, yield func(Step) bool) error {
	known, err := b.parts().registry.sameAs(ctx, j)
	if err != nil {
		return err
	}
	at, ok := j.Set().Next(fill.From.Add(-time.Nanosecond))
	for ok {
		now, err := b.Keeper.Now(ctx)
		if err != nil {
			return err
		}
		var due []time.Time
		for ok && at.Before(fill.To) && !j.Starts(at).After(now) && len(due) < backlogPage {
			due = append(due, at)
			at, ok = j.Set().Next(at)
		}
		if len(due) == 0 {
			return nil
		}
		rows, n, err := b.rowsOf(ctx, j, due)
		if err != nil {
			return err
		}
		if n < len(due) { // there were too many rows for one answer
			at, ok = due[n], true
		}
		for _, at := range due[:n] {
			row, own := rows(at)
			if !yield(fill.decide(j, at, row, own, known.Pause, now)) {
				return nil
			}
		}
	}
	return nil
}

// backlogPage is how many ticks a back-fill looks at in one read.
const backlogPage = 1000

// rowsOf returns the rows of ticks, and whether each belongs to this job's definition; n is the number of ticks that
// it covers, which is smaller if the rows between them are more than one answer holds.
func (b *Backend) rowsOf(ctx context.Context, j *Job, due []time.Time) (row func(time.Time) (r tick.Tick, own bool), n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	for n = len(due); ; n = max(n/2, 1) {
		rows, err := b.History.Ticks(ctx, history.Query{Job: j.Spec.Key(), From: due[0], To: due[n-1].Add(time.Microsecond), Limit: settleBatch})
		if err != nil {
			return nil, 0, fmt.Errorf("read the ticks of %s: %w", j.Spec.Key(), unavailable(err))
		}
		if len(rows) == settleBatch && n > 1 {
			continue
		}
		single := make(map[int64]tick.Tick, len(rows))
		var ranges []tick.Tick
		foreign := map[int64]bool{} // looked at once: a range may stand for thousands
		for _, r := range rows {
			if single[r.At.UnixMicro()] = r; !r.Through.IsZero() {
				ranges = append(ranges, r)
				foreign[r.At.UnixMicro()] = len(ticksOf(j.Set(), r)) == 0
			}
		}
		return func(at time.Time) (tick.Tick, bool) {
			r, found := single[at.UnixMicro()]
			if !found {
				r = rowOf(at, ranges)
			}
			return r, !foreign[r.At.UnixMicro()]
		}, n, nil
	}
}

// decide returns what to do with a tick that row accounts for; own means that row belongs to this definition.
func (b *Backfill) decide(j *Job, at time.Time, row tick.Tick, own bool, pause tick.Pause, now time.Time) Step {
	s := Step{At: at, Was: string(row.Outcome), Do: Fill}
	leave := func(why string, again bool) Step {
		if s.Do, s.Why = Leave, why; again && b.Force {
			s.Do, s.Why = Again, ""
		}
		return s
	}
	switch {
	case pause.Covers(now):
		return leave(PauseText(pause), false)
	case row.State == "" && at.Before(now.Add(day-retention)):
		return leave("it is older than what history keeps", true)
	case row.State == "" && pause.Covers(at):
		return leave("it was paused", true)
	case row.State == "" && !j.Open(at):
		return leave("it lies outside the windows of its job", true)
	case row.State == "":
		return s
	case row.State != tick.Closed:
		s.Was = string(row.State)
		return leave("it is under way: "+row.Claimant.String(), false)
	case row.Outcome == run.Skipped && row.Reason == run.ReasonWindow:
		return leave("it lies outside the windows of its job", true)
	case row.Outcome == run.Skipped && !b.Skipped:
		return leave("it was skipped: "+row.Reason, true)
	case row.Outcome == run.Missed, row.Outcome == run.Unavailable, row.Outcome == run.Skipped:
		if !own {
			return leave("it belongs to an earlier definition of the job", true)
		}
		return s
	case row.Outcome == run.Paused:
		return leave("it was paused", true)
	case j.Spec.Policy.OnCrash == job.CrashRerun && mayRerun(row) && row.Reruns < maxReruns && now.Sub(at) <= j.Spec.Policy.CatchUpWindow:
		return leave("a server runs it again by itself (on_crash)", false)
	}
	return leave("it has run", true)
}

const day = 24 * time.Hour

// partition splits a range row into up to three parts, one of which is the tick at. It fails if the range is not
// made of this job's ticks, for example because another schedule left it behind. A single tick's row is its own only
// part.
func partition(j *Job, row tick.Tick, at time.Time) (parts []tick.Tick, ok bool) {
	if row.Through.IsZero() {
		return []tick.Tick{row}, true
	}
	all := ticksOf(j.Set(), row)
	for i, x := range all {
		if x.Equal(at) {
			return span(all[:i], all[i:i+1], all[i+1:]), true
		}
	}
	return nil, false
}

// ticksOf returns the ticks that a range covers; none if it is not made of these schedules' ticks.
func ticksOf(set schedule.Set, row tick.Tick) (all []time.Time) {
	x, more := set.Next(row.At.Add(-time.Nanosecond))
	for more && !x.After(row.Through) && len(all) <= row.Count {
		all = append(all, x)
		x, more = set.Next(x)
	}
	if n := len(all); n == 0 || n != row.Count || !all[0].Equal(row.At) || !all[n-1].Equal(row.Through) {
		return nil
	}
	return all
}

func span(groups ...[]time.Time) (parts []tick.Tick) {
	for _, g := range groups {
		switch n := len(g); n {
		case 0:
		case 1:
			parts = append(parts, tick.Tick{At: g[0], Count: 1})
		default:
			parts = append(parts, tick.Tick{At: g[0], Through: g[n-1], Count: n})
		}
	}
	return parts
}

// ticks counts them in words.
func ticks(n int) string {
	if n == 1 {
		return "1 tick"
	}
	return fmt.Sprintf("%d ticks", n)
}
