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

// premature says whether a tick is to be asked for again although it was refused: the store's clock has not
// come to it, or it got its outcome before its time by a clock that was fast. That is taken back here, where it
// may be.
func (p *Place) premature(ctx context.Context, w tick.Want, a tick.Answer) bool {
	if a.Status == tick.Early {
		return true
	}
	concluded := a.Status == tick.Taken && foreseen(a.Tick, a.Now)
	unclaimed := a.Status == tick.Taken && a.Tick.State == tick.Closed && a.Tick.Claimed.IsZero()
	refused := a.Status == tick.Settled || a.Status == tick.Paused || unclaimed || concluded
	if !refused || a.Now.After(p.Keeper.Extend(w.At, w.StartBy)) {
		return false // it may well have been settled in its time
	}
	known, ok, err := p.registered(ctx, w.Job)
	if err != nil || !ok {
		return false
	}
	ahead := concluded || Ahead(known, a.Now) > 0
	if a.Status == tick.Paused {
		ahead = pausedAhead(known, a.Now)
	}
	if !ahead {
		return false
	}
	p.tryUnsettle(ctx, known, a.Now.Sub(w.At)+lease.MaxStep) // the tick itself as well
	return true
}

// pausedAhead is the pause's, and foreseen the tick's, by more than two looks at one clock may differ by.
func pausedAhead(j tick.Job, now time.Time) bool { return j.Pause.Ahead(now.Add(lease.MaxStep)) }
func foreseen(t tick.Tick, now time.Time) bool   { return t.Foreseen(now.Add(lease.MaxStep)) }

func (p *Place) tryUnsettle(ctx context.Context, known tick.Job, since time.Duration) {
	if _, set, err := Registered(known); err == nil {
		if _, err := p.unsettle(ctx, known, set, since); err != nil {
			p.log().Warn("ticks that were settled ahead of the store's clock could not be corrected", "job", known.Name, "error", err)
		}
	}
}

// endSilence waits until a job is neither settled nor paused ahead of the store's clock any more, nor its tick,
// at most for twice the minute after which a process takes that back. A tick whose time to start is shorter is
// then lost; but if only such processes work on the job, and none of them waited, nothing would run until the
// clock has caught up.
func (p *Place) endSilence(ctx context.Context, w tick.Want) {
	ctx, cancel := context.WithTimeout(ctx, 2*lease.StepQuiet)
	defer cancel()
	for p.again(ctx, w.At, tick.Settled) {
		known, ok, err := p.registered(ctx, w.Job)
		switch {
		case err != nil:
		case !ok || Ahead(known, p.passed()) == 0 && !pausedAhead(known, p.passed()) && !p.closedAhead(ctx, w):
			return
		default:
			p.tryUnsettle(ctx, known, 0)
		}
	}
}

// closedAhead says whether a tick has an outcome from before its time.
func (p *Place) closedAhead(ctx context.Context, w tick.Want) bool {
	rows, err := p.History.Ticks(ctx, history.Query{Job: w.Job, From: w.At, To: w.At.Add(time.Microsecond), Limit: 1})
	return err == nil && len(rows) == 1 && foreseen(rows[0], p.passed())
}

// Ahead is how far a job is settled ahead of an instant of the store's clock; 0 where that is no more than two
// looks at one clock may differ by. Its ticks up to there are refused: the clock was fast once, and is right
// again (rule L12).
func Ahead(known tick.Job, now time.Time) time.Duration {
	if d := known.Mark.Sub(now); d > lease.MaxStep && known.Removed.IsZero() {
		return d
	}
	return 0
}

// AheadWords says so of a job to people; empty where it is not.
func AheadWords(known tick.Job, now time.Time) string {
	d := Ahead(known, now)
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("settled up to %s, %s ahead of the store's clock, which was once fast: none of its ticks runs until this is corrected; "+
		"dibs serve and dibs run do so once the clock has been steady for a minute", stamp(known.Mark), d.Round(time.Second))
}

// unsettleBatch bounds the rows that are looked at, and deleted, in one step.
const unsettleBatch = 500

// waited is for how long ticks may have been refused until that was taken back: by a process that watches the clock.
const waited = lease.StepQuiet + longestSleep

// unsettle takes back the outcomes that ticks got ahead of the store's clock, once that has kept to its line
// for a minute, and those of ticks that fell due in that minute, or since: they may still have time to start. A
// tick that was won, and ran or was skipped, keeps its row, and with it its outcome: none is run twice. It
// reports true where the job is no longer as known says, or is still ahead: the next look goes on.
func (p *Place) unsettle(
	ctx context.Context, known tick.Job, set schedule.Set, since time.Duration,
) (again bool, err error) {
	now := p.passed().Truncate(time.Microsecond)
	u := unsettling{p: p, name: known.Name, set: set, now: now, mark: known.Mark, paused: pausedAhead(known, now)}
	u.low = now.Add(-min(max(since, waited), tick.MaxBack-lease.MaxStep))
	ahead := Ahead(known, now)
	switch {
	case !p.Keeper.Steady():
		return ahead > 0, nil
	case ahead == 0 && known.Mark.After(u.low):
		u.low = known.Mark // which stays
	}
	u.early = known.Since.After(now.Add(lease.MaxStep))
	paused, early := u.paused, u.early
	defer func() {
		if early && !u.early {
			p.Event(ctx, history.Event{Kind: "definition-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"its definition was to be in force from %s on, ahead of the store's clock, which was fast then: it is now",
				stamp(known.Since))})
		}
		if paused && !u.paused {
			p.Event(ctx, history.Event{Kind: "pause-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"%s; its end, or else its beginning, was ahead of the store's clock, which was fast then: it is now",
				PausedBy(known.Pause))})
		}
		if u.mark.Before(known.Mark) {
			p.Event(ctx, history.Event{Kind: "mark-brought-back", Job: known.Name, Reason: fmt.Sprintf(
				"it was settled up to %s, %s ahead of the store's clock, which was fast then; "+
					"from now on its ticks are due again, but for those that have had a run",
				stamp(known.Mark), ahead.Round(time.Second))})
		}
		if u.concluded > 0 {
			p.Event(ctx, history.Event{Kind: "ticks-taken-back", Job: known.Name, Reason: fmt.Sprintf(
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
	p    *Place
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
	a, err := u.p.Ticks.Unsettle(ctx, tick.UnsettleRequest{Job: u.name, From: u.mark, To: to, Rows: found})
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

// find are the latest rows before an instant that are to be taken back, and the instant after which there are no
// others.
func (u *unsettling) find(ctx context.Context, before time.Time) (end time.Time, found []tick.Tick, err error) {
	q := history.Query{Job: u.name, From: u.low.Add(time.Microsecond), To: before, Limit: unsettleBatch}
	rows, err := u.p.History.Ticks(ctx, q)
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
			part, err := u.p.cutRange(ctx, u.set, t, u.low)
			if err != nil {
				return end, nil, err
			}
			found = append(found, part...)
		}
	}
	return end, found, nil
}

// errChanged says that a row is no longer as it was read. Whoever lowered the mark all the same would leave the
// other's part of a range ahead of the mark, for ticks that are due again.
var errChanged = errors.New("the rows have changed")

// cutRange splits a range row after an instant and returns its second part; nothing where the row is not one of these
// schedules': then it stays as it is.
func (p *Place) cutRange(ctx context.Context, set schedule.Set, row tick.Tick, now time.Time) ([]tick.Tick, error) {
	all := ticksOf(set, row)
	n := 0
	for n < len(all) && !all[n].After(now) {
		n++
	}
	if n == 0 || n == len(all) {
		return nil, nil
	}
	parts := span(all[:n], all[n:])
	a, err := p.Ticks.Split(ctx, tick.SplitRequest{Row: row, Parts: parts})
	switch {
	case err != nil:
		return nil, err
	case a.Status != tick.Won:
		return nil, errChanged
	}
	return parts[1:], nil
}
