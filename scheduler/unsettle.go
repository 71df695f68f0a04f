package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// unsettleBatch bounds the rows that are looked at, and deleted, in one step.
const unsettleBatch = 500

// waited is how long ticks may have been refused until a process that watches the clock took the outcomes back.
const waited = lease.StepQuiet + longestSleep

// unsettle takes back the outcomes that ticks got ahead of the store's clock, once the clock has been steady for a
// minute, and those of ticks that became due in that minute, or since: they may still have time to start. A tick
// that was won, and ran or was skipped, keeps its row, and with it its outcome: none is run twice. It returns true
// if the job is no longer as known says, or is still ahead: the next look continues.
func (s *unsettler) unsettle(
	ctx context.Context, known tick.Job, set schedule.Set, since time.Duration,
) (again bool, err error) {
	now := s.b.passed().Truncate(time.Microsecond)
	u := unsettling{unsettler: s, name: known.Name, set: set, now: now, mark: known.Mark, paused: pausedAhead(known.Pause, now)}
	u.low = now.Add(-min(max(since, waited), tick.MaxBack-lease.MaxStep))
	ahead := Ahead(known, now)
	switch {
	case !s.b.Keeper.Steady():
		return ahead > 0, nil
	case ahead == 0 && known.Mark.After(u.low):
		u.low = known.Mark // which stays
	}
	u.early = known.Since.After(now.Add(lease.MaxStep))
	paused, early := u.paused, u.early
	defer func() {
		if early && !u.early {
			s.recorder.event(ctx, history.Event{Kind: "definition-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"its definition was to be in force from %s on, ahead of the store's clock, which was fast then: it is now",
				stamp(known.Since))})
		}
		if paused && !u.paused {
			s.recorder.event(ctx, history.Event{Kind: "pause-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"%s; its end, or else its beginning, was ahead of the store's clock, which was fast then: it is now",
				PauseText(known.Pause))})
		}
		if u.mark.Before(known.Mark) {
			s.recorder.event(ctx, history.Event{Kind: "mark-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"it was settled up to %s, %s ahead of the store's clock, which was fast then; "+
					"from now on its ticks are due again, but for those that have had a run",
				stamp(known.Mark), ahead.Round(time.Second))})
		}
		if u.concluded > 0 {
			s.recorder.event(ctx, history.Event{Kind: "ticks-taken-back", Job: known.Name, Reason: fmt.Sprintf(
				"%d of its ticks up to %s had an outcome from a store's clock that was fast, and no run; "+
					"they are due when their time comes",
				u.concluded, stamp(u.latest))})
		}
	}()
	for before, done := (time.Time{}), false; !done; {
		switch before, done, err = u.step(ctx, before); {
		case errors.Is(err, errChanged):
			return true, nil // another process is at it
		case err != nil:
			return true, err
		}
	}
	return u.concluded > 0 || u.mark.Before(known.Mark) || paused || early, nil
}

// unsettling is one look at what lies ahead of the store's clock in the rows of a job.
type unsettling struct {
	*unsettler
	name string
	set  schedule.Set
	now  time.Time
	// low is the instant after which outcomes are taken back, and to which the mark is lowered if it lies above it.
	low, mark time.Time
	paused    bool      // the job's pause is still to be corrected
	early     bool      // the beginning of its definition is
	concluded int       // rows of claimed ticks that were taken back
	latest    time.Time // the last one of them
}

// step takes back what it finds in the latest rows before an instant (zero: in the latest), and returns the instant
// before which there may be more.
func (u *unsettling) step(ctx context.Context, before time.Time) (next time.Time, done bool, err error) {
	end, found, err := u.find(ctx, before)
	if err != nil {
		return next, false, err
	}
	to := u.mark
	if end.Before(to) {
		to = end
	}
	if len(found) == 0 && to.Equal(u.mark) && !u.paused && !u.early {
		return end.Add(time.Microsecond), !end.After(u.low), nil
	}
	a, err := u.b.Ticks.Unsettle(ctx, tick.UnsettleRequest{Job: u.name, From: u.mark, To: to, Rows: found})
	switch {
	case err != nil:
		return next, false, fmt.Errorf("take back what is settled of %s: %w", u.name, err)
	case a.Status != tick.Won:
		return next, false, errChanged
	}
	u.mark, u.paused, u.early = to, false, false
	for _, t := range found {
		if t.Claimed.IsZero() {
			continue
		}
		if u.concluded++; t.At.After(u.latest) {
			u.latest = t.At
		}
	}
	return end.Add(time.Microsecond), !end.After(u.low), nil
}

// find returns the latest rows before an instant that must be taken back, and the instant after which there are no
// others.
func (u *unsettling) find(ctx context.Context, before time.Time) (end time.Time, found []tick.Tick, err error) {
	q := history.Query{Job: u.name, From: u.low.Add(time.Microsecond), To: before, Limit: unsettleBatch}
	rows, err := u.b.History.Ticks(ctx, q)
	if err != nil {
		return end, nil, fmt.Errorf("read the ticks of %s: %w", u.name, err)
	}
	if end = u.low; len(rows) == unsettleBatch {
		if oldest := rows[len(rows)-1].At; oldest.After(u.low) {
			end = oldest.Add(-time.Microsecond)
		}
	}
	for _, t := range rows {
		switch {
		case t.State != tick.Closed || !t.Claimed.IsZero() && !foreseen(t, u.now):
		case t.At.After(u.low):
			found = append(found, t)
		case t.Claimed.IsZero(): // a range across it: only what is after it is taken back
			part, err := u.cutRange(ctx, t)
			if err != nil {
				return end, nil, err
			}
			found = append(found, part...)
		}
	}
	return end, found, nil
}

// errChanged says that a row is no longer as it was read. Lowering the mark all the same would leave another
// process's part of a range ahead of the mark, for ticks that are due again.
var errChanged = errors.New("the rows have changed")

// cutRange splits a range row after the instant above which outcomes are taken back, and returns its second part;
// nothing if the row is not made of these schedules' ticks: then it stays as it is.
func (u *unsettling) cutRange(ctx context.Context, row tick.Tick) ([]tick.Tick, error) {
	all := ticksOf(u.set, row)
	n := 0
	for n < len(all) && !all[n].After(u.low) {
		n++
	}
	if n == 0 || n == len(all) {
		return nil, nil
	}
	parts := span(all[:n], all[n:])
	a, err := u.b.Ticks.Split(ctx, tick.SplitRequest{Row: row, Parts: parts})
	switch {
	case err != nil:
		return nil, err
	case a.Status != tick.Won:
		return nil, errChanged
	}
	return parts[1:], nil
}
