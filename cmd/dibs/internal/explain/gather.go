package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// ErrUnknown is returned for a job of which a store knows nothing.
var ErrUnknown = errors.New("nothing is known of this job")

// lookBack is how long before a missed tick hosts are looked for.
const lookBack = time.Hour

// latestEvents is how many events of a key without a schedule are read: they belong to no tick.
const latestEvents = 10

// Find reads the definition of a job, also one that was removed; nil where there is none.
func Find(ctx context.Context, p *scheduler.Backend, name string) (*Definition, error) {
	known, err := p.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{name}})
	if err != nil {
		return nil, fmt.Errorf("read the registered jobs: %w", err)
	}
	if len(known) == 0 {
		return nil, nil
	}
	d, err := Define(known[0])
	if err != nil {
		return nil, fmt.Errorf("the registered definition of %w", err)
	}
	return d, nil
}

// Gather reads what a backend knows about the tick of a job that was asked for.
func Gather(ctx context.Context, p *scheduler.Backend, name, at string) (Facts, error) {
	f := Facts{Name: name, TTL: p.Keeper.Margin().TTL}
	var err error
	if f.Now, err = p.Keeper.Now(ctx); err != nil {
		return f, err
	}
	if f.Definition, err = Find(ctx, p, name); err != nil {
		return f, err
	}
	zone := time.UTC
	if f.Definition != nil {
		zone = f.Definition.Zone
	}
	w, err := ParseWhen(at, f.Now, zone)
	if err != nil {
		return f, err
	}
	g := gatherer{ctx, p, &f}
	if err := g.pick(w); err != nil {
		return f, err
	}
	if f.Definition != nil {
		f.Definition = f.Definition.Of(f.At)
	}
	return f, g.read()
}

type gatherer struct {
	ctx context.Context
	*scheduler.Backend
	f *Facts
}

func (g gatherer) ticks(q history.Query) ([]tick.Tick, error) {
	rows, err := g.History.Ticks(g.ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read the ticks of %s: %w", g.f.Name, err)
	}
	return rows, nil
}

// read reads what there is about the tick that was picked.
func (g gatherer) read() error {
	f := g.f
	if !f.At.IsZero() {
		rows, err := g.ticks(history.Query{Job: f.Name, From: f.At, To: f.At.Add(time.Microsecond)})
		if err != nil {
			return err
		}
		// A range stands for its own ticks only, not for every instant between them.
		if len(rows) > 0 && (rows[0].At.Equal(f.At) || f.Definition == nil || f.Definition.has(f.At) || !f.Definition.covers(f.At)) {
			f.Row = &rows[0]
		}
	}
	if err := g.readRuns(); err != nil {
		return err
	}
	if f.Unscheduled() && len(f.Around) == 0 {
		return ErrUnknown
	}
	if err := g.readEvents(); err != nil {
		return err
	}
	if f.Row != nil && f.Row.State == tick.Claimed {
		if err := g.readHolder(); err != nil {
			return err
		}
	}
	if f.Row == nil || f.Row.Outcome == run.Missed {
		return g.readSeen()
	}
	return nil
}

// end is when the tick was over, with a little room for what was written last; zero if it is not.
func (g gatherer) end() time.Time {
	if t := g.f.Row; t != nil && t.State == tick.Closed {
		return t.Ended.Add(3 * time.Minute) // many events alike are written as one, a minute later
	}
	return time.Time{}
}

func (g gatherer) readRuns() error {
	f := g.f
	q := history.Query{Job: f.Name, To: g.end(), Limit: 1000}
	switch {
	case f.Row != nil && f.Row.RunID != "":
		q.From, q.Limit = f.At.Add(-tick.Ahead), 10_000
	case f.Unscheduled():
		q.To, q.Limit = f.Until, 1
	}
	runs, err := g.History.Runs(g.ctx, q)
	if err != nil {
		return fmt.Errorf("read the runs of %s: %w", f.Name, err)
	}
	f.Around = runs
	for _, r := range slices.Backward(runs) {
		if f.Row != nil && r.Tick.Equal(f.At) {
			f.Runs = append(f.Runs, r)
		}
	}
	return g.readAgain()
}

// readAgain looks for runs in which a back-fill ran the tick once more, among the latest ones: they began
// at any time since.
func (g gatherer) readAgain() error {
	f := g.f
	if f.At.IsZero() {
		return nil
	}
	runs, err := g.History.Runs(g.ctx, history.Query{Job: f.Name, From: f.At, Limit: 10_000})
	if err != nil {
		return fmt.Errorf("read the runs of %s: %w", f.Name, err)
	}
	for _, r := range slices.Backward(runs) {
		if r.Cause != nil && r.Cause.Again.Equal(f.At) {
			f.Again = append(f.Again, r)
		}
	}
	return nil
}

func (g gatherer) readEvents() error {
	f := g.f
	q := history.Query{Job: f.Name, To: g.end(), Limit: 10_000}
	if !f.At.IsZero() {
		q.From = f.At.Add(-tick.Ahead)
		if f.Row == nil || f.Row.Outcome == run.Missed {
			q.From = f.At.Add(-24 * lookBack) // since when a server may hold another definition
		}
	}
	if f.Unscheduled() {
		q.Limit = latestEvents
	}
	events, err := g.History.Events(g.ctx, q)
	if err != nil {
		return fmt.Errorf("read the events of %s: %w", f.Name, err)
	}
	slices.Reverse(events)
	f.Events = events
	return nil
}

// Unscheduled reports whether f is of a key without a schedule.
func (f *Facts) Unscheduled() bool { return f.Row == nil && f.Definition == nil }

// GatherLease adds to the facts about a key without a schedule what its leases in p say: who has the key, and whether
// runs of it used --once-per DURATION. Call it only for a key of p itself, not for one that a host has copied to p.
func GatherLease(ctx context.Context, p *scheduler.Backend, f *Facts) error {
	key, err := lease.ParseKey(f.Name)
	if err != nil {
		return nil //nolint:nilerr // no lease can have this name
	}
	g := gatherer{ctx, p, f}
	if err := g.readHolder(); err != nil {
		return err
	}
	_, gate, err := p.Keeper.Read(ctx, key.Gate())
	f.Spaced = err == nil && gate.Key != ""
	return err
}

// readHolder looks who has the lease that a claimed tick may be waiting for.
func (g gatherer) readHolder() error {
	key, err := lease.ParseKey(g.f.Name)
	if err != nil {
		return nil //nolint:nilerr // no lease can have this name
	}
	now, r, err := g.Keeper.Read(g.ctx, key)
	if err != nil {
		return err
	}
	if r.Live(now) {
		g.f.Holder = r
	}
	return nil
}

// readSeen looks who started anything around a tick that was missed.
func (g gatherer) readSeen() error {
	f := g.f
	d := f.Definition
	if f.Row == nil && (d == nil || !d.has(f.At) || !d.over(f.At, f.Now, f.TTL)) {
		return nil
	}
	to := f.At.Add(time.Minute)
	if d != nil && d.covers(f.At) {
		to = d.job.StartBy(f.At)
	}
	seen, err := g.History.Runs(g.ctx, history.Query{From: f.At.Add(-lookBack), To: to, Limit: 1000})
	if err != nil {
		return fmt.Errorf("read who was at work at %s: %w", f.At.Format(time.RFC3339), err)
	}
	f.Seen = seen
	return nil
}
