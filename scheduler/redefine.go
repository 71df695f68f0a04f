package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// Ticks that were due before a change follow the definition of that time (rule T11): the store keeps it until all of
// them have their outcome. So a job has a line of definitions: those that ended, and the one in force.

// mostPast bounds the definitions that a job keeps besides the one in force.
const mostPast = 8

// redefiner changes the registered definition of a job (rule T11).
type redefiner struct {
	b         *Backend
	registry  *registry
	settler   *settler
	concluder *concluder
}

// leave completes the request that changes a definition: it keeps what has open ticks before the change. If a job
// changes so often that there would be more than mostPast, the oldest definitions end now: ticks of theirs that
// nobody claimed are missed.
func (r *redefiner) leave(ctx context.Context, known tick.Job, req tick.JobRequest) (tick.JobRequest, error) {
	var open []tick.Job
	all := r.registry.definitions(ctx, known)
	all[len(all)-1].Until = req.Since
	for _, d := range all {
		spec, set, err := r.registry.readable(ctx, d)
		if err != nil {
			return req, err
		}
		if spec != nil && hasOpen(set, known.Mark, req.Since) {
			open = append(open, d)
		}
	}
	if len(open) > mostPast {
		var err error
		if open, err = r.unaccounted(ctx, open); err != nil {
			return req, err
		}
	}
	for ; len(open) > mostPast; open = open[1:] {
		if _, err := r.concluder.one(ctx, open[0], req.Since); err != nil {
			return req, err
		}
	}
	req.Past, req.Of = tick.EncodePast(open), known.Generation
	return req, nil
}

// unaccounted returns the definitions that have a tick without a row: about the others, nothing is left to decide.
func (r *redefiner) unaccounted(ctx context.Context, ended []tick.Job) (open []tick.Job, err error) {
	for _, d := range ended {
		_, set, err := Registered(d)
		if err != nil {
			continue // it is recorded
		}
		some, err := r.lacks(ctx, d, set)
		if err != nil {
			return nil, err
		}
		if some {
			open = append(open, d)
		}
	}
	return open, nil
}

// lacks reports whether some tick of a definition that ended has no row, however many ticks with one come before it.
func (r *redefiner) lacks(ctx context.Context, d tick.Job, set schedule.Set) (bool, error) {
	for {
		due, rows, err := r.settler.open(ctx, d, set, func(time.Time) bool { return true })
		if err != nil || len(due) == 0 {
			return false, err
		}
		if len(tick.Unaccounted(due, rows)) > 0 {
			return true, nil
		}
		d.Mark = due[len(due)-1]
	}
}

// define makes the store hold the job's definition, as the latest load (rule T11), and returns its generation. Ticks
// before this one end under the definition that was there; this one is the first under the new one.
func (r *redefiner) define(ctx context.Context, j *Job, at time.Time) (generation int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.b.Keeper.Margin().TTL)
	defer cancel()
	now, err := r.b.Keeper.Now(ctx)
	if err != nil {
		return 0, err
	}
	if at.After(now.Add(tick.Ahead)) { // it would raise the mark over ticks that are still to come
		return 0, fmt.Errorf("%s: the tick %s is in the future", j.Spec.Key(), stamp(at))
	}
	name := j.Spec.Key()
	for range registerTries {
		known, ok, err := r.registry.registered(ctx, name)
		req := tick.JobRequest{Name: name, Definition: DefinitionKeepingSource(&j.Spec, known), Since: at}
		switch {
		case err != nil:
			return 0, unavailable(err)
		case ok && known.Definition == req.Definition:
			return known.Generation, nil
		case ok && isFunction(known) && j.Spec.Function == nil:
			return 0, fmt.Errorf("%s: %w", name, errFunction(known))
		case ok:
			r.b.log().Warn("this definition replaces another one of this job in the store; check that every server has the same manifest", "event", "definition-replaced", "job", name)
			if req, err = r.leave(ctx, known, req); err != nil {
				return 0, unavailable(err)
			}
		}
		set, err := r.b.Ticks.SetJobs(ctx, []tick.JobRequest{req})
		if err != nil {
			return 0, unavailable(fmt.Errorf("register %s: %w", name, err))
		}
		if stands(req, set[0]) {
			return set[0].Generation, nil
		}
	}
	return 0, errContended(name)
}

// hasOpen reports whether there is a tick above the mark and before an instant.
func hasOpen(set schedule.Set, mark, until time.Time) bool {
	at, ok := set.Next(mark)
	return ok && at.Before(until)
}

// above returns an instant at which a definition can end: above the mark, even if the store's clock has stepped
// back, so that no tick falls between it and the next one.
func above(at, mark time.Time) time.Time {
	if least := mark.Add(2 * time.Microsecond); at.Before(least) {
		return least
	}
	return at
}

// stands reports whether what was requested is registered. If not, the request was made for an old definition.
func stands(r tick.JobRequest, registered tick.Job) bool {
	if r.Remove {
		return registered.Generation == 0 || !registered.Removed.IsZero()
	}
	return registered.Definition == r.Definition && registered.Removed.IsZero()
}

// errContended says that others kept registering other definitions.
func errContended(name string) error {
	return fmt.Errorf("register %s: %w: other definitions of it are being registered at the same time", name, lease.ErrUnavailable)
}
