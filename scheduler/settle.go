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

// Registered reads a registered definition, or another one of tick.Job's Definitions: its spec, which lacks its name,
// and its schedules, for as long as it is in force.
func Registered(known tick.Job) (*job.Spec, schedule.Set, error) {
	spec, err := job.ParseDefinition(known.Definition)
	if err != nil {
		return nil, schedule.Set{}, fmt.Errorf("%s: %w", known.Name, err)
	}
	set, err := setOf(spec, known.Name)
	if err != nil {
		return nil, schedule.Set{}, fmt.Errorf("%s: its registered schedule: %w", known.Name, err)
	}
	if known.Past != "" || !known.Until.IsZero() { // other ticks above the mark are of its other definitions
		set = set.Within(known.Since, known.Until)
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
func (p *Backend) tidy(ctx context.Context, j *Job, name string) error {
	orphans, err := p.Ticks.Orphans(ctx, tick.Look{Job: name})
	if err != nil {
		return fmt.Errorf("look for orphaned ticks of %s: %w", name, err)
	}
	for _, t := range orphans.Ticks {
		switch {
		case t.State == tick.Started:
			err = p.crashed(ctx, t)
		case p.passed().After(p.startBy(j, t.At)) && (t.Reruns == 0 || p.passed().After(t.Claimed.Add(j.rules().late))):
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
	for _, d := range p.definitions(ctx, known) {
		as, err := j.under(d)
		if err != nil {
			p.unreadable(ctx, d, err)
			continue
		}
		if _, open := as.Set().Next(known.Mark); open || d.Until.IsZero() {
			_, err = p.settle(ctx, d, as.Set(), p.tooLate(as))
			return err // what came after it, the next one does
		}
	}
	return nil
}

// Conclude settles what is left of a job that ends now, by the schedules of its definitions: the ticks that nobody
// claimed get their outcome (rule T11). It returns the removal that may then be made: of the generation that was
// concluded, at the instant up to which it was. An error leaves the job as far as it has come; the next call goes on.
func (p *Backend) Conclude(ctx context.Context, known tick.Job) (removal tick.JobRequest, err error) {
	until, mark := above(p.passed(), known.Mark), known.Mark
	for _, d := range p.definitions(ctx, known) {
		d.Mark = mark
		if mark, err = p.concludeOne(ctx, d, until); err != nil {
			return removal, err
		}
	}
	return tick.JobRequest{Name: known.Name, Since: above(until, mark), Of: known.Generation, Remove: true}, nil
}

// concludeOne concludes one of a job's definitions up to an instant, step by step: in ranges as far as the mark can be
// raised, and one by one above a tick that is not finished yet.
func (p *Backend) concludeOne(ctx context.Context, d tick.Job, until time.Time) (mark time.Time, err error) {
	spec, set, err := p.readable(ctx, d)
	if err != nil || spec == nil || !hasOpen(set, d.Mark, until) {
		return d.Mark, err
	}
	before := func(at time.Time) bool { return at.Before(until) }
	for stuck := 0; stuck < 2 && hasOpen(set, d.Mark, until); stuck++ { // one step may be spoilt by a claim beside it
		if _, err := p.settle(ctx, d, set, before); err != nil {
			return d.Mark, err
		}
		now, ok, err := p.registered(ctx, d.Name)
		if err != nil || !ok || now.Generation != d.Generation {
			return d.Mark, err
		}
		if !now.Mark.Equal(d.Mark) {
			d.Mark, stuck = now.Mark, -1
		}
	}
	return d.Mark, p.concludeSingly(ctx, d, spec, set, before)
}

// concludeSingly gives an outcome to each tick above the mark that has no row.
func (p *Backend) concludeSingly(ctx context.Context, known tick.Job, spec *job.Spec, set schedule.Set, before func(time.Time) bool) error {
	w, err := windowsOf(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", known.Name, err)
	}
	for {
		due, rows, err := p.open(ctx, known, set, before)
		if err != nil || len(due) == 0 {
			return err
		}
		if differs, err := p.concludeEach(ctx, known, w, tick.Unaccounted(due, rows)); err != nil || differs {
			return err
		}
		known.Mark = due[len(due)-1]
	}
}

// concludeEach gives these ticks their outcome. It differs where another definition has taken over: whoever was faster
// has concluded this one.
func (p *Backend) concludeEach(ctx context.Context, known tick.Job, w windows, ticks []time.Time) (differs bool, err error) {
	var missed unrun
	defer func() { p.tell(missed.Happening) }()
	for _, at := range ticks {
		outcome, reason := w.fate(known.Pause, at)
		a, err := p.Book.Claim(ctx, tick.Want{Job: known.Name, At: at, Generation: known.Generation, Outcome: outcome, Reason: reason})
		if err != nil || a.Status == tick.Differs {
			return true, err
		}
		if a.Status == tick.Won && outcome == run.Missed {
			missed.add(known.Name, at, outcome, reason)
		}
	}
	return false, nil
}

// readable is Registered, for what must go on where a definition cannot be read: its zone, say, has gone
// from this host's database. That is recorded, and spec is nil.
func (p *Backend) readable(ctx context.Context, known tick.Job) (spec *job.Spec, set schedule.Set, err error) {
	spec, set, err = Registered(known)
	if err == nil {
		return spec, set, nil
	}
	if ctx.Err() != nil {
		return nil, set, context.Cause(ctx)
	}
	p.unreadable(ctx, known, err)
	return nil, set, nil
}

// registered is the active registration of a job.
func (p *Backend) registered(ctx context.Context, name string) (tick.Job, bool, error) {
	known, err := p.batches().jobs.Do(ctx, name)
	if err != nil {
		return tick.Job{}, false, fmt.Errorf("read the mark of %s: %w", name, err)
	}
	if known.Name != name || !known.Removed.IsZero() {
		return tick.Job{}, false, nil
	}
	return known, true, nil
}

// tooLate says whether a tick can no longer be started, a claim that is on its way included.
func (p *Backend) tooLate(j *Job) func(time.Time) bool {
	over := p.passed().Add(-p.Keeper.Margin().TTL)
	return func(at time.Time) bool { return p.startBy(j, at).Before(over) }
}

// settleBatch bounds the ticks that are settled in one step; the next one goes on.
const settleBatch = 10_000

// open lists the ticks above the mark that are over, and the rows that account for some of them.
func (p *Backend) open(ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool) (due []time.Time, rows []tick.Tick, err error) {
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

// settled is what became of a settling: how many rows it wrote, and whether a tick that is not finished holds
// up the mark.
type settled struct {
	rows  int
	stuck bool
}

// settle records the outcome of the ticks that are over and that nobody claimed, and raises the
// high-water mark (rule T4).
func (p *Backend) settle(
	ctx context.Context, known tick.Job, set schedule.Set, over func(time.Time) bool,
) (done settled, err error) {
	due, rows, err := p.open(ctx, known, set, over)
	if err != nil || len(due) == 0 {
		return done, err
	}
	for _, t := range rows {
		done.stuck = done.stuck || t.State != tick.Closed
		if t.State != tick.Closed && !t.At.After(due[0]) && t.At.After(known.Mark) {
			return done, nil // the first of them already
		}
	}
	outcomes, err := p.unclaimed(known, due, rows)
	if err != nil {
		return done, fmt.Errorf("%s: %w", known.Name, err)
	}
	for i, now := 0, p.now().Truncate(time.Microsecond); i < len(outcomes); i++ {
		outcomes[i].Ended = now // by which they are known as ours
	}
	a, err := p.Ticks.Settle(ctx, tick.SettleRequest{Job: known.Name, From: known.Mark, To: due[len(due)-1], Generation: known.Generation, Rows: outcomes})
	switch {
	case err != nil:
		return done, fmt.Errorf("settle %s: %w", known.Name, err)
	case a.Status != tick.Won:
		return settled{}, nil // another process was faster
	}
	p.tellSettled(ctx, known.Name, outcomes)
	done.rows = len(outcomes)
	return done, nil
}

// unclaimed are the outcomes of ticks that nobody claimed: neighbours that ended alike are one row.
func (p *Backend) unclaimed(known tick.Job, due []time.Time, rows []tick.Tick) (all []tick.Tick, err error) {
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
