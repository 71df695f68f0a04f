// Package explain says what was decided for one tick of a job, and why, from what a store has
// recorded. Gather reads, Decide concludes and reads nothing; the words are the caller's.
package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// What an Account's Outcome can be beside the eleven of promise 10 and the states "claimed" and
// "started".
const (
	// NoTick: the job is not due at that instant (rule T4).
	NoTick = "no_tick"
	// NotDue: the instant lies in the future.
	NotDue = "not_due"
	// Due: nobody has claimed it, and it can still start.
	Due = "due"
	// Forgotten: it was settled, and its record is older than what history keeps.
	Forgotten = "forgotten"
	// NotTold: a host's own job, of which the host has told this store nothing for that tick: it is
	// not over there, or the host has been away since.
	NotTold = "not_told"
	// NoSchedule: the store holds no schedule for this key, so that it has runs and no ticks.
	NoSchedule = "no_schedule"
)

// A Definition is what a store holds of a job, understood.
type Definition struct {
	tick.Job
	Spec *job.Spec
	Set  schedule.Set
	Zone *time.Location
	job  *scheduler.Job
	// before are those that ended and left ticks open, oldest first (rule T11).
	before []*Definition
}

// Define reads a registered definition, and those before it that left ticks open, as far as they can be read.
func Define(known tick.Job) (*Definition, error) {
	d, err := define(known)
	if err != nil {
		return nil, err
	}
	all, _ := known.Definitions() // whoever settles by them tells of what cannot be read
	for _, ended := range all[:len(all)-1] {
		if b, err := define(ended); err == nil {
			d.before = append(d.before, b)
		}
	}
	return d, nil
}

func define(known tick.Job) (*Definition, error) {
	spec, set, err := scheduler.Registered(known)
	if err != nil {
		return nil, err
	}
	zone, err := schedule.LoadZone(spec.Timezone)
	if err != nil {
		return nil, err
	}
	spec.App, spec.Name, _ = strings.Cut(known.Name, "/")
	return &Definition{Job: known, Spec: spec, Set: set, Zone: zone, job: &scheduler.Job{Spec: *spec}}, nil
}

// line are the definitions that left ticks open, and this one, oldest first.
func (d *Definition) line() []*Definition { return append(slices.Clone(d.before), d) }

// Of is the definition that an instant belongs to.
func (d *Definition) Of(at time.Time) *Definition {
	for _, b := range d.before {
		if b.covers(at) {
			return b
		}
	}
	return d
}

// has says whether at is one of the definition's ticks: earlier ones, and those after its removal,
// do not belong to it (rules T4, T11).
func (d *Definition) has(at time.Time) bool {
	due, ok := d.Set.Prev(at)
	return ok && due.Equal(at) && d.covers(at)
}

func (d *Definition) covers(at time.Time) bool {
	return !at.Before(d.Since) && (d.Removed.IsZero() || at.Before(d.Removed)) && (d.Until.IsZero() || at.Before(d.Until))
}

// over says whether a tick can no longer be started, a claim that is on its way included: what
// settling asks as well.
func (d *Definition) over(at, now time.Time, ttl time.Duration) bool {
	return d.job.StartBy(at).Before(now.Add(-ttl))
}

// Facts are what a store says about one tick of a job.
type Facts struct {
	// Name is the job's.
	Name string
	// Now is the store's time and TTL the fleet's.
	Now time.Time
	TTL time.Duration
	// Host is whose own job it is, where its copy in a shared store is looked at (rule H1), and
	// Heard when that host was last heard of there.
	Host  string
	Heard time.Time
	// Definition is nil where the job is not registered.
	Definition *Definition
	// At is the tick, or an instant that is none.
	At time.Time
	// Until is the end of what was asked for, where it has no tick.
	Until time.Time
	// Row is what stands in the store for it; it may stand for others as well.
	Row *tick.Tick
	// Runs are the tick's, in the order of their starts.
	Runs []run.Record
	// Again are runs beside the tick, in which it was run once more, in the order of their starts.
	Again []run.Record
	// Around are runs of the job, whatever their tick, that began before this one ended; the
	// latest first.
	Around []run.Record
	// Events are those of the job while the tick was open, the oldest first.
	Events []history.Event
	// Holder is who has the job's lease now; its Key is empty where nobody has.
	Holder lease.Record
	// Spaced says of a key without a schedule that runs of it used --once-per DURATION (see Unscheduled).
	Spaced bool
	// Seen are runs of any job that began shortly before the tick or while it could start; the
	// latest first. They are asked for where the tick was missed.
	Seen []run.Record
}
