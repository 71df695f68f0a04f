package explain

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// ReasonUnsettled is that of a row of Unsettled; ReasonMany says that it stands for more ticks than
// its Count.
const (
	ReasonUnsettled = "nobody claimed it in time, and no server has settled it yet"
	ReasonMany      = ReasonUnsettled + "; there are more than this count"
)

// Most bounds what ReadUnsettled reads and walks through.
type Most struct {
	// Rows is how many rows are read of all jobs together, but at least two of each. Those that have more above their
	// mark than their share are asked for one by one, for 1,000 rows at least.
	Rows int
	// Jobs is how many jobs are asked for so.
	Jobs int
	// Ticks is how many ticks of one job are walked through. A row of more says so (ReasonMany).
	Ticks int
}

// mostRows is how many rows one answer of a store holds.
const mostRows = 10_000

// Known returns rows of a job that were read already, and the instant from which on these are all; the zero instant:
// there are no others.
type Known func(job string) (rows []tick.Tick, from time.Time)

// ReadUnsettled reads the ticks that history does not tell of yet: over, unclaimed, and above their job's mark (rule
// T4). The rows that are known are not read again; nil: none is. However many jobs there are, they share requests. Of
// cut jobs only the latest ticks are told.
func ReadUnsettled(ctx context.Context, b *scheduler.Backend, jobs []*Definition, known Known, now time.Time, most Most) (missed []tick.Tick, cut int, err error) {
	var (
		late, unread []*Definition
		names        []string // of unread
		rows         = map[string][]tick.Tick{}
		ttl          = b.Keeper.Margin().TTL
	)
	if known == nil {
		known = func(string) ([]tick.Tick, time.Time) { return nil, now }
	}
	for _, d := range jobs {
		if !d.Overdue(now, ttl) {
			continue
		}
		late = append(late, d)
		if of, from := known(d.Name); !from.After(d.Mark) {
			rows[d.Name] = of
		} else {
			unread, names = append(unread, d), append(names, d.Name)
		}
	}
	n := min(max(most.Rows/max(len(unread), 1), 2), 100)
	last, err := LatestTicks(ctx, b.History, names, n)
	if err != nil {
		return nil, 0, err
	}
	var more []*Definition // than n above their mark
	for i, d := range unread {
		if rows[d.Name] = last[i]; len(last[i]) == n && last[i][n-1].At.After(d.Mark) {
			more = append(more, d)
		}
	}
	alone := more[:min(len(more), most.Jobs)]
	n = min(max(most.Rows/max(len(alone), 1), 1000), mostRows)
	above := make([]history.Query, len(alone))
	for i, d := range alone {
		above[i] = history.Query{Job: d.Name, From: d.Mark.Add(time.Microsecond), Limit: n}
	}
	read, err := Ticks(ctx, b.History, above)
	if err != nil {
		return nil, 0, err
	}
	for i, d := range more {
		if i < len(alone) {
			if rows[d.Name] = read[i]; len(read[i]) < n {
				continue
			}
		}
		of := rows[d.Name]
		from := of[len(of)-1].At
		if had, since := known(d.Name); since.Before(from) {
			rows[d.Name], from = had, since
		}
		d.forget(from)
		cut++
	}
	for _, d := range late {
		missed = append(missed, d.Unsettled(rows[d.Name], now, ttl, most.Ticks)...)
	}
	return missed, cut, nil
}

// atOnce is how many requests are under way at a time, where there are many: the store may be far away.
const atOnce = 8

// Ticks asks history.Store.Ticks for several answers, some of them at a time.
func Ticks(ctx context.Context, s history.Store, queries []history.Query) ([][]tick.Tick, error) {
	found := make([][]tick.Tick, len(queries))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	for i, q := range queries {
		all.Go(func() (err error) {
			found[i], err = s.Ticks(ctx, q)
			return err
		})
	}
	return found, all.Wait()
}

// LatestTicks asks history.Store.LatestTicks for many jobs, several parts of them at a time.
func LatestTicks(ctx context.Context, s history.Store, jobs []string, n int) ([][]tick.Tick, error) {
	const part = 500
	found := make([][]tick.Tick, len(jobs))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	for from := 0; from < len(jobs); from += part {
		to := min(from+part, len(jobs))
		all.Go(func() error {
			rows, err := s.LatestTicks(ctx, jobs[from:to], n)
			copy(found[from:to], rows)
			return err
		})
	}
	return found, all.Wait()
}

// forget has what is older than an instant count as settled.
func (d *Definition) forget(from time.Time) {
	for _, x := range d.line() {
		if from.After(x.Mark) {
			x.Mark = from
		}
	}
}

// Unsettled are the ticks of a job that can no longer start, that nobody claimed, and that no
// process has recorded as missed or paused yet (rule T4): neighbours as one row, oldest first, and without a
// State, since none of them is in the store. rows are the job's above its mark, in any order. At most so many ticks
// are walked through for each definition.
func (d *Definition) Unsettled(rows []tick.Tick, now time.Time, ttl time.Duration, most int) (missed []tick.Tick) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b tick.Tick) int { return a.At.Compare(b.At) })
	for _, x := range d.line() {
		if x.overdue(now, ttl) {
			missed = append(missed, x.unsettled(rows, x.end(now, ttl), most)...)
		}
	}
	return missed
}

// unsettled does so for the ticks of one definition. rows are sorted.
func (d *Definition) unsettled(rows []tick.Tick, end time.Time, budget int) (missed []tick.Tick) {
	from := d.Mark
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

// Late returns the latest tick that should have begun by an instant, and that somebody may still claim: no pause and
// no window holds it back, and it is neither settled nor too late to start. ok is false if there is none.
func (d *Definition) Late(by, now time.Time) (at time.Time, ok bool) {
	at, ok = d.Set.Prev(by.Add(-d.job.Starts(by).Sub(by)))
	if !ok || !at.After(d.Mark) || !d.covers(at) || d.job.StartBy(at).Before(now) || d.Pause.Stops(at, now) {
		return at, false
	}
	outcome, _ := d.job.Fate(d.Pause, at)
	return at, outcome == run.Missed
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
