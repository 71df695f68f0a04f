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

// premature says whether a tick is to be asked for again although it was refused: the store's clock has not come to it,
// or it was settled before its time by a clock that was fast. That is taken back here, where it may be.
func (p *Place) premature(ctx context.Context, w tick.Want, a tick.Answer) bool {
	if a.Status == tick.Early {
		return true
	}
	unclaimed := a.Status == tick.Taken && a.Tick.State == tick.Closed && a.Tick.Claimed.IsZero()
	if a.Status != tick.Settled && !unclaimed || a.Now.After(w.StartBy) {
		return false // it may well have been settled in its time
	}
	known, ok, err := p.registered(ctx, w.Job)
	if err != nil || !ok || Ahead(known, a.Now) == 0 {
		return false
	}
	p.tryUnsettle(ctx, known, a.Now.Sub(w.At))
	return true
}

func (p *Place) tryUnsettle(ctx context.Context, known tick.Job, since time.Duration) {
	if _, set, err := Registered(known); err == nil {
		if err := p.unsettle(ctx, known, set, since); err != nil {
			p.log().Warn("what was settled ahead of the store's clock could not be taken back", "job", known.Name, "error", err)
		}
	}
}

// endSilence waits until a job is not settled ahead of the store's clock any more, at most for twice the minute after
// which a process takes that back. A tick whose time to start is shorter is then lost; but if only such processes work
// on the job, and none of them waited, nothing would run until the clock has caught up.
func (p *Place) endSilence(ctx context.Context, w tick.Want) {
	ctx, cancel := context.WithTimeout(ctx, 2*lease.StepQuiet)
	defer cancel()
	for p.early(ctx, w.At.Add(2*lease.StepQuiet)) {
		known, ok, err := p.registered(ctx, w.Job)
		switch {
		case err != nil:
		case !ok || Ahead(known, p.passed()) == 0:
			return
		default:
			p.tryUnsettle(ctx, known, 0)
		}
	}
}

// Ahead is how far a job is settled ahead of an instant of the store's clock; 0 where that is no more than two looks at
// one clock may differ by. Its ticks up to there are refused: the clock was fast once, and is right again (rule L12).
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
	return fmt.Sprintf("settled up to %s, %s ahead of the store's clock, which was fast once: until that is taken back none of its ticks is run; "+
		"dibs serve and dibs run do that once they have seen the clock keep to its line for a minute", stamp(known.Mark), d.Round(time.Second))
}

// unsettleBatch bounds the rows that are deleted in one step.
const unsettleBatch = 500

// waited is for how long ticks may have been refused until that was taken back: by a process that watches the clock.
const waited = lease.StepQuiet + longestSleep

// unsettle takes back what was settled ahead of the store's clock, once that has kept to its line for a minute, and
// what fell due in that minute, or since: it may still have time to start. A tick that was claimed keeps its row,
// and with it its outcome: none is run twice.
func (p *Place) unsettle(ctx context.Context, known tick.Job, set schedule.Set, since time.Duration) error {
	now := p.passed().Truncate(time.Microsecond)
	ahead := Ahead(known, now)
	if ahead == 0 || !p.Keeper.Steady() {
		return nil
	}
	now = now.Add(-min(max(since, waited), tick.MaxBack-lease.MaxStep))
	from := known.Mark
	for mark := from; mark.After(now); {
		to, rows, err := p.foreseen(ctx, known.Name, set, now, mark)
		switch {
		case errors.Is(err, errChanged):
			return nil // another process is at it; the next look goes on
		case err != nil:
			return err
		}
		a, err := p.Ticks.Unsettle(ctx, tick.UnsettleRequest{Job: known.Name, From: mark, To: to, Rows: rows})
		switch {
		case err != nil:
			return fmt.Errorf("take back what is settled of %s: %w", known.Name, err)
		case a.Status != tick.Won:
			return nil // another process was faster
		}
		mark = to
	}
	p.Event(ctx, history.Event{Kind: "mark-brought-back", Job: known.Name, Reason: fmt.Sprintf(
		"it was settled up to %s, %s ahead of the store's clock, which was fast then; from now on its ticks are due again, but for those that have had a run",
		stamp(from), ahead.Round(time.Second))})
	return nil
}

// foreseen are the latest rows of ticks in (now, mark] that nobody claimed, and the instant after which there are no
// others.
func (p *Place) foreseen(ctx context.Context, name string, set schedule.Set, now, mark time.Time) (to time.Time, found []tick.Tick, err error) {
	rows, err := p.History.Ticks(ctx, history.Query{Job: name, From: now.Add(time.Microsecond), To: mark.Add(time.Microsecond), Limit: unsettleBatch})
	if err != nil {
		return to, nil, fmt.Errorf("read the ticks of %s: %w", name, err)
	}
	if to = now; len(rows) == unsettleBatch {
		if oldest := rows[len(rows)-1].At; oldest.After(now) {
			to = oldest.Add(-time.Microsecond)
		}
	}
	for _, t := range rows {
		switch {
		case t.State != tick.Closed || !t.Claimed.IsZero():
		case t.At.After(now):
			found = append(found, t)
		default: // a range across now: only what is after it is taken back
			part, err := p.cutRange(ctx, set, t, now)
			if err != nil {
				return to, nil, err
			}
			found = append(found, part...)
		}
	}
	return to, found, nil
}

// errChanged says that a range is no longer as it was read. Whoever lowered the mark all the same would leave the
// other's part of it ahead of the mark, for ticks that are due again.
var errChanged = errors.New("the range has changed")

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
