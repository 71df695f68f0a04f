package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A Fire says for which tick a job is fired. The zero value means the tick that is due now.
type Fire struct {
	// Accept, when it ends, stops the waiting for the store and for the lease, but not a run. Default Trigger's
	// context.
	Accept context.Context
	// Tick is the scheduled instant. Default the job's latest tick by the store's clock at the time at which the
	// caller was started; a tick up to 2 s ahead counts too.
	Tick time.Time
	// Called is the name of Tick in errors. Default the instant.
	Called string
	// At is when the platform fired, if it says so: the tick is then the latest one at that time, and none later.
	// Zero: the platform does not say, and Ago counts.
	At time.Time
	// Ago is how long before the call of Trigger the caller was started.
	Ago time.Duration
	// Manual is a run without a tick, whatever is due; nil: there is a tick.
	Manual *Manual

	begun time.Duration // when Trigger was called, by the boot clock
}

// Manual says, for the history, who asked for a run without a tick.
type Manual struct {
	// IdempotencyKey is passed to the job, so that it can recognise a repetition. Default the run's id.
	IdempotencyKey string
	By, Why        string
}

// Fired is the result of a fire.
type Fired struct {
	scheduler.Result
	// Tick is the tick of the fire; zero: it had none, or none was found.
	Tick time.Time
	// Answer says who has the tick, if it was not won here. Nothing ran then, and Result is empty.
	Answer tick.Answer
	// Paused says who paused the job, and why, if Answer says that it is paused.
	Paused string
}

// Reasons why a job was not fired.
var (
	// ErrNotDue means that no tick is due, that the given instant is not a tick, or that its time has passed.
	ErrNotDue = errors.New("not due")
	// ErrNotHere means that the job is for other environments than Options.Environment.
	ErrNotHere = errors.New("not run here")
	// ErrWindow means that the tick is outside the windows in which the job may run.
	ErrWindow = errors.New("skipped")
)

// Trigger fires the job once: of all processes that fire the same tick, exactly one runs it. When ctx ends, the run
// is told to stop. Trigger returns once the run has ended, or once it is known that another process has the tick;
// Fired says which. An error means that nothing was started: it wraps ErrNotDue, ErrNotHere, ErrWindow or
// lease.ErrUnavailable, or it is a *Refusal.
func (j *Job) Trigger(ctx context.Context, f Fire) (Fired, error) {
	if f.Accept == nil {
		f.Accept = ctx
	}
	j.asked = f.Accept
	f.begun = clock.System.Boot()
	b, made, err := j.Open(f.Accept)
	if err != nil {
		if j.homes[j.spec.Policy.Scope] == nil {
			j.unclaimed(f, err)
		}
		return Fired{}, err
	}
	if m := f.Manual; m != nil {
		if err := j.sandboxed(j.spec); err != nil { // whatever its environments are: it runs here
			return Fired{}, j.refuse(err)
		}
		res := b.TriggerNow(f.Accept, ctx, made, m.IdempotencyKey, &run.Cause{By: m.By, Why: m.Why})
		j.ran = !res.Run.Started.IsZero()
		return Fired{Result: res, Answer: tick.Answer{Status: tick.Won}}, nil
	}
	at, err := j.tick(f, b, made)
	if err != nil {
		return Fired{Tick: at}, err
	}
	home := j.homes[j.spec.Policy.Scope]
	if j.spec.Policy.Scope == job.Global && j.notes() {
		j.at.address().Remember(j.o.StateDir, home.Backend)
	}
	res, a, err := b.Trigger(f.Accept, ctx, made, at)
	if err != nil && res.Run.ID == "" {
		if j.spec.Policy.Scope == job.Global && j.notes() {
			j.at.address().NoteUnclaimed(j.o.StateDir, made, j.spec.Key(), at, err)
		}
		return Fired{Tick: at}, err
	}
	j.ran = !res.Run.Started.IsZero()
	fired := Fired{Result: res, Tick: at, Answer: a}
	if a.Status == tick.Paused {
		fired.Paused = b.WhyPaused(context.Background(), j.spec.Key())
	}
	return fired, nil
}

// tick returns the tick that the fire is for. It also returns it with the error for a tick outside the job's
// windows.
func (j *Job) tick(f Fire, b *scheduler.Backend, made *scheduler.Job) (time.Time, error) {
	now, err := b.Keeper.Now(f.Accept)
	if err != nil {
		return time.Time{}, err
	}
	f.Ago += clock.System.Boot() - f.begun
	if made.Dormant {
		return time.Time{}, fmt.Errorf("%s: %w: its environments are %s, and this server's is %q",
			j.spec.Key(), ErrNotHere, strings.Join(j.spec.Environments, ", "), j.o.Environment)
	}
	at, due, err := j.scheduled(f, made, now)
	switch {
	case err != nil:
		return time.Time{}, err
	case !due && !f.Tick.IsZero():
		next, _ := made.Set().Next(now)
		return time.Time{}, fmt.Errorf("%s: %w: the tick %s is too late to start (the latest start was %s), and the next one is at %s; the store's time is %s",
			j.spec.Key(), ErrNotDue, at.Format(time.RFC3339), made.StartBy(at).Format(time.RFC3339), next.Format(time.RFC3339), now.Format(time.RFC3339))
	case !due:
		next, _ := made.Set().Next(now)
		return time.Time{}, fmt.Errorf("%s: %w: its last tick was at %s, too long ago to start (the latest start was %s), and the next one is at %s; the store's time is %s",
			j.spec.Key(), ErrNotDue, at.Format(time.RFC3339), made.StartBy(at).Format(time.RFC3339), next.Format(time.RFC3339), now.Format(time.RFC3339))
	case !made.Open(at):
		return at, fmt.Errorf("%s: %w: its tick %s is outside the windows in which it may run", j.spec.Key(), ErrWindow, at.UTC().Format(time.RFC3339))
	}
	return at, nil
}

// scheduled returns the tick of a fire: the given one, or the one that is inferred.
func (j *Job) scheduled(f Fire, made *scheduler.Job, now time.Time) (at time.Time, due bool, err error) {
	if f.Tick.IsZero() && !f.At.IsZero() {
		at, due = made.Due(f.At, now)
		return at, due, nil
	}
	if f.Tick.IsZero() {
		if at, due = made.Due(now.Add(-f.Ago), now); !due {
			// A loop that cron started once fires for as long as it runs.
			at, due = made.Due(now, now)
		}
		return at, due, nil
	}
	at = f.Tick.UTC()
	called := f.Called
	if called == "" {
		called = at.Format(time.RFC3339)
	}
	if prev, ok := made.Set().Prev(at); !ok || !prev.Equal(at) {
		next, _ := made.Set().Next(at)
		return at, false, fmt.Errorf("%w: %s is no tick of %s: the nearest ones are %s and %s", ErrNotDue, called, j.spec.Key(), prev.Format(time.RFC3339), next.Format(time.RFC3339))
	}
	if at.After(now.Add(tick.Ahead)) {
		return at, false, fmt.Errorf("%s is in the future: the store's time is %s; want a tick that is due, at most %s ahead", called, now.Format(time.RFC3339), tick.Ahead)
	}
	return at, !made.StartBy(at).Before(now), nil
}

// notes reports whether this process keeps notes on this host about a store that does not answer.
func (j *Job) notes() bool { return j.o.StateDir != "" && j.at.Opened == nil }

// unclaimed keeps a note of the tick for which no store was found.
func (j *Job) unclaimed(f Fire, cause error) {
	if j.spec.Policy.Scope != job.Global || f.Manual != nil || !j.notes() || j.dormant(j.spec) {
		return
	}
	made := &scheduler.Job{Spec: *j.spec}
	if at, due, err := j.scheduled(f, made, clock.System.Wall()); err == nil && due && made.Open(at) {
		j.at.address().NoteUnclaimed(j.o.StateDir, made, j.spec.Key(), at, cause)
	}
}
