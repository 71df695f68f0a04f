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

// SetOf is the union of a job's schedules in its zone, under its name and meaning of daylight saving.
func SetOf(spec *job.Spec) (schedule.Set, error) { return setOf(spec, spec.Key()) }

// Registered reads a registered definition: its spec, which lacks its name, and its schedules.
func Registered(known tick.Job) (*job.Spec, schedule.Set, error) {
	spec, err := job.ParseDefinition(known.Definition)
	if err != nil {
		return nil, schedule.Set{}, fmt.Errorf("%s: %w", known.Name, err)
	}
	set, err := setOf(spec, known.Name)
	if err != nil {
		return nil, schedule.Set{}, fmt.Errorf("%s: its registered schedule: %w", known.Name, err)
	}
	return spec, set, nil
}

func setOf(spec *job.Spec, name string) (schedule.Set, error) {
	zone, err := schedule.LoadZone(spec.Timezone)
	if err != nil {
		return schedule.Set{}, err
	}
	o := schedule.Options{Zone: zone, Name: name, DST: schedule.DST(spec.DST)}
	var all []*schedule.Schedule
	for _, expr := range spec.Schedules {
		s, err := o.Parse(expr)
		if err != nil {
			return schedule.Set{}, err
		}
		all = append(all, s)
	}
	return schedule.Union(all...), nil
}

// tidy settles what is over of one job: runs that crashed, claims that nobody started, ticks that
// nobody claimed. Any process that touches a job does it (rule T4).
func (p *Place) tidy(ctx context.Context, j *Job, name string) error {
	orphans, err := p.Ticks.Orphans(ctx, name, 100)
	if err != nil {
		return fmt.Errorf("look for orphaned ticks of %s: %w", name, err)
	}
	for _, t := range orphans {
		switch {
		case t.State == tick.Started:
			err = p.crashed(ctx, t)
		case p.passed().After(j.StartBy(t.At)) && (t.Reruns == 0 || p.passed().After(t.Claimed.Add(j.rules().late))):
			err = p.overdue(ctx, t) // who stands by to run it again has had the time for that
		}
		if err != nil {
			return err
		}
	}
	known, ok, err := p.registered(ctx, name)
	if err != nil || !ok {
		return err
	}
	_, err = p.settle(ctx, known, j.Set, p.tooLate(j))
	return err
}

// Conclude settles what is left of a definition that ends now, by its own schedules: the ticks
// that nobody claimed get their outcome before another definition, or none, takes over (rule T11).
func (p *Place) Conclude(ctx context.Context, known tick.Job) error {
	return p.conclude(ctx, known, p.passed())
}

// conclude does so for the ticks before an instant: in ranges as far as the mark can be raised, and
// one by one above a tick that is not finished yet.
func (p *Place) conclude(ctx context.Context, known tick.Job, until time.Time) error {
	spec, set, err := p.readable(ctx, known)
	if err != nil || spec == nil {
		return err
	}
	before := func(at time.Time) bool { return at.Before(until) }
	if _, err := p.settle(ctx, known, set, before); err != nil {
		return err
	}
	generation := known.Generation
	known, ok, err := p.registered(ctx, known.Name)
	if err != nil || !ok || known.Generation != generation {
		return err
	}
	due, rows, err := p.open(ctx, known, set, before)
	if err != nil || len(due) == 0 {
		return err
	}
	w, err := windowsOf(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", known.Name, err)
	}
	var missed unrun
	defer func() { p.tell(missed.Happening) }()
	for _, at := range tick.Unaccounted(due, rows) {
		outcome, reason := w.fate(known.Pause, at)
		a, err := p.Book.Claim(ctx, tick.Want{Job: known.Name, At: at, Generation: known.Generation, Outcome: outcome, Reason: reason})
		if err != nil || a.Status == tick.Differs { // whoever was faster has concluded it
			return err
		}
		if a.Status == tick.Won && outcome == run.Missed {
			missed.add(known.Name, at, outcome, reason)
		}
	}
	return nil
}

// readable is Registered, for what must go on where a definition cannot be read: its zone, say, has gone
// from this host's database. That is recorded, and spec is nil.
func (p *Place) readable(ctx context.Context, known tick.Job) (spec *job.Spec, set schedule.Set, err error) {
	spec, set, err = Registered(known)
	if err == nil {
		return spec, set, nil
	}
	if ctx.Err() != nil {
		return nil, set, context.Cause(ctx)
	}
	p.Event(ctx, history.Event{Kind: "definition-unreadable", Job: known.Name,
		Reason: fmt.Sprintf("%v; which ticks it had after %s cannot be told, so those that nobody claimed get no outcome", err, stamp(known.Mark))})
	return nil, set, nil
}

// registered is the active registration of a job.
func (p *Place) registered(ctx context.Context, name string) (tick.Job, bool, error) {
	known, err := p.Ticks.Jobs(ctx, name)
	if err != nil {
		return tick.Job{}, false, fmt.Errorf("read the mark of %s: %w", name, err)
	}
	for _, k := range known {
		if k.Name == name && k.Removed.IsZero() {
			return k, true, nil
		}
	}
	return tick.Job{}, false, nil
}

// tooLate says whether a tick can no longer be started, a claim that is on its way included.
func (p *Place) tooLate(j *Job) func(time.Time) bool {
	over := p.passed().Add(-p.Keeper.Margin().TTL)
	return func(at time.Time) bool { return j.StartBy(at).Before(over) }
}

// settleBatch bounds the ticks that are settled in one step; the next sweep goes on.
const settleBatch = 10_000

// open lists the ticks above the mark that are over, and the rows that account for some of them.
func (p *Place) open(ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool) (due []time.Time, rows []tick.Tick, err error) {
	at, ok := set.Next(known.Mark)
	for ok && len(due) < settleBatch && over(at) {
		due = append(due, at)
		at, ok = set.Next(at)
	}
	if len(due) == 0 {
		return nil, nil, nil
	}
	to := due[len(due)-1].Add(time.Microsecond)
	rows, err = p.History.Ticks(ctx, history.Query{Job: known.Name, From: due[0], To: to, Limit: settleBatch})
	if err != nil {
		err = fmt.Errorf("read the ticks of %s: %w", known.Name, err)
	}
	return due, rows, err
}

// settle records the outcome of the ticks that are over and that nobody claimed, and raises the
// high-water mark (rule T4). It returns how many rows it wrote.
func (p *Place) settle(ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool) (int, error) {
	due, rows, err := p.open(ctx, known, set, over)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	outcomes, err := p.unclaimed(known, due, rows)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", known.Name, err)
	}
	for i, now := 0, p.now().Truncate(time.Microsecond); i < len(outcomes); i++ {
		outcomes[i].Ended = now // by which they are known as ours
	}
	a, err := p.Ticks.Settle(ctx, tick.SettleRequest{Job: known.Name, From: known.Mark, To: due[len(due)-1], Rows: outcomes})
	switch {
	case err != nil:
		return 0, fmt.Errorf("settle %s: %w", known.Name, err)
	case a.Status != tick.Won:
		return 0, nil // another process was faster
	}
	p.tellSettled(ctx, known.Name, outcomes)
	return len(outcomes), nil
}

// unclaimed are the outcomes of ticks that nobody claimed: neighbours that ended alike are one row.
func (p *Place) unclaimed(known tick.Job, due []time.Time, rows []tick.Tick) (all []tick.Tick, err error) {
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
		if outcome == run.Missed && p.Keeper.Jumped(at) {
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

// retention is how long history is kept: longer than any catch-up window.
const retention = 90 * 24 * time.Hour

// prune forgets what is older than the retention.
func (p *Place) prune(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_ = p.Keeper.Sync(ctx) // a clock that has just jumped makes nothing old
	n, err := p.History.Prune(ctx, p.passed().Add(-retention-p.Keeper.Leapt()))
	switch {
	case err != nil:
		p.log().Warn("old history could not be pruned", "error", err)
	case n > 0:
		p.log().Info("old history was pruned", "event", "pruned", "rows", n)
	}
}
