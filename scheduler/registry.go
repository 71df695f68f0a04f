package scheduler

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// SetOf returns the union of a job's schedules in its zone, with its name and DST setting.
func SetOf(spec *job.Spec) (schedule.Set, error) { return setOf(spec, spec.Key()) }

// Registered reads a registered definition, or another one of tick.Job's Definitions. It returns its spec, without
// its name, and its schedules, for as long as it is in force.
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

// registry reads how jobs are registered.
type registry struct {
	b        *Backend
	requests *requests
	recorder *recorder
}

// registered returns the active registration of a job.
func (r *registry) registered(ctx context.Context, name string) (tick.Job, bool, error) {
	known, err := r.requests.open().jobs.Do(ctx, name)
	if err != nil {
		return tick.Job{}, false, fmt.Errorf("read the mark of %s: %w", name, err)
	}
	if known.Name != name || !known.Removed.IsZero() {
		return tick.Job{}, false, nil
	}
	return known, true, nil
}

// readable is Registered for callers that must continue if a definition cannot be read, for example because its zone
// is gone from this host's database. It records that, and spec is nil.
func (r *registry) readable(ctx context.Context, known tick.Job) (spec *job.Spec, set schedule.Set, err error) {
	spec, set, err = Registered(known)
	if err == nil {
		return spec, set, nil
	}
	if ctx.Err() != nil {
		return nil, set, context.Cause(ctx)
	}
	r.unreadable(ctx, known, err)
	return nil, set, nil
}

// definitions returns the job's definitions, oldest first. A past that cannot be read is recorded, and left out.
func (r *registry) definitions(ctx context.Context, known tick.Job) []tick.Job {
	all, err := known.Definitions()
	if err != nil {
		r.unreadable(ctx, known, err)
	}
	return all
}

func (r *registry) unreadable(ctx context.Context, known tick.Job, err error) {
	r.recorder.event(ctx, history.Event{Kind: "definition-unreadable", Job: known.Name,
		Reason: fmt.Sprintf("%v; its ticks after %s cannot be computed, so unclaimed ones get no outcome", err, stamp(known.Mark))})
}

// sameAs returns the job's registration, which must have this definition: a back-fill changes nothing about what
// servers do.
func (r *registry) sameAs(ctx context.Context, j *Job) (tick.Job, error) {
	if err := j.Check(); err != nil {
		return tick.Job{}, err
	}
	known, ok, err := r.registered(ctx, j.Spec.Key())
	switch {
	case err != nil:
		return known, unavailable(err)
	case !ok:
		return known, fmt.Errorf("%s: %w in %s", j.Spec.Key(), ErrUnknownJob, r.b.Name)
	case known.Definition != DefinitionKeepingSource(&j.Spec, known):
		return known, fmt.Errorf("%s: %w", j.Spec.Key(), ErrOtherDefinition)
	}
	return known, nil
}
