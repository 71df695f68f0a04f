package explain

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ReasonUnsettled is that of a row of Unsettled; ReasonMany says that it stands for more ticks than
// its Count.
const (
	ReasonUnsettled = "nobody claimed it in time, and no server has settled it yet"
	ReasonMany      = ReasonUnsettled + "; there are more than this count"
)

// counted bounds the ticks of a job that Unsettled walks through.
const counted = 100_000

// Unsettled are the ticks of a job that can no longer start, that nobody claimed, and that no
// process has recorded as missed or paused yet (rule T4): neighbours as one row, oldest first, and without a
// State, since none of them is in the store. rows are the job's above its mark, in any order.
func (d *Definition) Unsettled(rows []tick.Tick, now time.Time, ttl time.Duration) (missed []tick.Tick) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b tick.Tick) int { return a.At.Compare(b.At) })
	for _, x := range d.line() {
		if x.overdue(now, ttl) {
			missed = append(missed, x.unsettled(rows, x.end(now, ttl))...)
		}
	}
	return missed
}

// unsettled does so for the ticks of one definition. rows are sorted.
func (d *Definition) unsettled(rows []tick.Tick, end time.Time) (missed []tick.Tick) {
	budget, from := counted, d.Mark
	for _, r := range rows {
		if !r.At.Before(end) {
			break
		}
		missed = d.gap(missed, from, r.At, &budget)
		for _, at := range []time.Time{r.At, r.Through} {
			if at.After(from) {
				from = at
			}
		}
	}
	return d.gap(missed, from, end, &budget)
}

// Overdue says whether any tick above the mark can no longer start, claimed or not. The ticks of a
// job that was removed were settled with its removal.
func (d *Definition) Overdue(now time.Time, ttl time.Duration) bool {
	return slices.ContainsFunc(d.line(), func(x *Definition) bool { return x.overdue(now, ttl) })
}

// Settled has Unsettled tell only of what comes after an instant.
func (d *Definition) Settled(mark time.Time) {
	for _, x := range d.line() {
		x.Mark = mark
	}
}

func (d *Definition) overdue(now time.Time, ttl time.Duration) bool {
	at, ok := d.Set.Next(d.Mark)
	return ok && d.Removed.IsZero() && at.Before(d.end(now, ttl))
}

// end is the instant before which no tick can start any more.
func (d *Definition) end(now time.Time, ttl time.Duration) time.Time {
	return now.Add(-ttl - d.job.StartBy(now).Sub(now))
}

// gap adds a row for the ticks between two instants, both exclusive, if there are any.
func (d *Definition) gap(missed []tick.Tick, after, before time.Time, budget *int) []tick.Tick {
	var row *tick.Tick
	for at, ok := d.Set.Next(after); ok && at.Before(before); at, ok = d.Set.Next(at) {
		if outcome, _ := d.job.Fate(d.Pause, at); row == nil || row.Outcome != outcome {
			missed = append(missed, d.unclaimed(at))
			row = &missed[len(missed)-1]
		}
		if *budget--; *budget < 0 {
			row.Reason = ReasonMany
			row.Through, _ = d.Set.Prev(before.Add(-time.Nanosecond))
			break
		}
		if row.Count++; row.Count > 1 {
			row.Through = at
		}
	}
	return missed
}

// unclaimed is a row of one tick that nobody claimed, as settling would have it.
func (d *Definition) unclaimed(at time.Time) tick.Tick {
	t := tick.Tick{Job: d.Name, At: at}
	if t.Outcome, t.Reason = d.job.Fate(d.Pause, at); t.Outcome == run.Missed {
		t.Reason = ReasonUnsettled
	}
	return t
}
