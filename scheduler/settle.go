package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// settleBatch bounds the ticks that are settled in one step; the next one continues.
const settleBatch = 10_000

// settled is the result of a settling: how many rows it wrote, and whether an unfinished tick holds back the mark.
type settled struct {
	rows  int
	stuck bool
}

// settler gives ticks that nobody claimed their outcome (rule T4).
type settler struct {
	b        *Backend
	registry *registry
	reaper   *reaper
	notifier *notifier
}

// settle records the outcome of the ticks that are over and that nobody claimed, and raises the high-water mark
// (rule T4).
func (s *settler) settle(
	ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool,
) (done settled, err error) {
	due, rows, err := s.open(ctx, known, set, over)
	if err != nil || len(due) == 0 {
		return done, err
	}
	var unfinished time.Time // the first tick that is
	for _, t := range rows {
		if t.State != tick.Closed && (!done.stuck || t.At.Before(unfinished)) {
			done.stuck, unfinished = true, t.At
		}
		if t.State != tick.Closed && !t.At.After(due[0]) && t.At.After(known.Mark) {
			return done, nil // the first of them already
		}
	}
	outcomes, err := s.unclaimed(known, due, rows)
	if err != nil {
		return done, fmt.Errorf("%s: %w", known.Name, err)
	}
	for i, now := 0, s.b.now().Truncate(time.Microsecond); i < len(outcomes); i++ {
		outcomes[i].Ended = now // by which they are known as ours
	}
	a, err := s.b.Ticks.Settle(ctx, tick.SettleRequest{Job: known.Name, From: known.Mark, To: due[len(due)-1], Generation: known.Generation, Rows: outcomes})
	switch {
	case err != nil:
		return done, fmt.Errorf("settle %s: %w", known.Name, err)
	case a.Status != tick.Won:
		return settled{}, nil // another process was faster
	}
	s.notifier.settled(ctx, known.Name, outcomes, unfinished)
	done.rows = len(outcomes)
	return done, nil
}

// open lists the ticks above the mark that are over, and the rows that account for some of them.
func (s *settler) open(ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool) (due []time.Time, rows []tick.Tick, err error) {
	at, ok := set.Next(known.Mark)
	for ok && len(due) < settleBatch && over(at) {
		due = append(due, at)
		at, ok = set.Next(at)
	}
	if len(due) == 0 {
		return nil, nil, nil
	}
	to := due[len(due)-1].Add(time.Microsecond)
	rows, err = s.b.History.Ticks(ctx, history.Query{Job: known.Name, From: due[0], To: to, Limit: settleBatch})
	if err != nil {
		err = fmt.Errorf("read the ticks of %s: %w", known.Name, err)
	}
	return due, rows, err
}

// unclaimed returns the outcomes of ticks that nobody claimed: neighbours that ended alike are one row.
func (s *settler) unclaimed(known tick.Job, due []time.Time, rows []tick.Tick) (all []tick.Tick, err error) {
	if len(tick.Unaccounted(due, rows)) == 0 {
		return nil, nil // mostly
	}
	spec, err := job.ParseDefinition(known.Definition)
	if err != nil {
		return nil, err
	}
	w, err := windowsOf(spec)
	if err != nil {
		return nil, err
	}
	fate := func(at time.Time) (run.Outcome, string) {
		outcome, reason := w.fate(known.Pause, at)
		if outcome == run.Missed && s.b.Keeper.Jumped(at) {
			reason = "the store's clock jumped over it"
		}
		return outcome, reason
	}
	for len(due) > 0 {
		outcome, reason := fate(due[0])
		n := slices.IndexFunc(due, func(at time.Time) bool { o, r := fate(at); return o != outcome || r != reason })
		if n < 0 {
			n = len(due)
		}
		for _, t := range tick.Unclaimed(known.Name, due[:n], rows, outcome, reason) {
			t.Inferred = outcome == run.Missed // a pause and a window are known
			all = append(all, t)
		}
		due = due[n:]
	}
	return all, nil
}

// tooLate returns a function that reports whether a tick can no longer be started, not even by a claim on its way.
func (s *settler) tooLate(j *Job) func(time.Time) bool {
	over := s.b.passed().Add(-s.b.Keeper.Margin().TTL)
	return func(at time.Time) bool { return s.b.startBy(j, at).Before(over) }
}

// tidy settles what is over of one job: runs that crashed, claims that nobody started, ticks that nobody claimed.
// Any process that uses a job does it (rule T4).
func (s *settler) tidy(ctx context.Context, j *Job, name string) error {
	orphans, err := s.b.Ticks.Orphans(ctx, tick.Look{Job: name})
	if err != nil {
		return fmt.Errorf("look for orphaned ticks of %s: %w", name, err)
	}
	for _, t := range orphans.Ticks {
		switch {
		case t.State == tick.Started:
			err = s.reaper.crashed(ctx, t)
		case s.b.passed().After(s.b.startBy(j, t.At)) && (t.Reruns == 0 || s.b.passed().After(t.Claimed.Add(j.rules().late))):
			err = s.reaper.overdue(ctx, t) // who stands by to run it again has had the time for that
		}
		if err != nil {
			return err
		}
	}
	known, ok, err := s.registry.registered(ctx, name)
	if err != nil || !ok {
		return err
	}
	for _, d := range s.registry.definitions(ctx, known) {
		as, err := j.under(d)
		if err != nil {
			s.registry.unreadable(ctx, d, err)
			continue
		}
		if _, open := as.Set().Next(known.Mark); open || d.Until.IsZero() {
			_, err = s.settle(ctx, d, as.Set(), s.tooLate(as))
			return err // what came after it, the next one does
		}
	}
	return nil
}
