package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// once is what --once-per says (rule T10): nothing, a distance between starts, or a schedule.
type once struct {
	every    time.Duration
	schedule *schedule.Schedule
	expr     string
}

// parseOnce reads --once-per for a key, with --dst and the zone that cron would use.
func parseOnce(text, zone, dst string, key lease.Key) (once, error) {
	if _, err := job.ParseDST(dst); err != nil {
		return once{}, fmt.Errorf("--dst %w", err)
	}
	if text == "" || text == "none" {
		return once{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return once{}, fmt.Errorf("--once-per %s: want a positive duration", text)
		}
		return once{every: d}, nil
	}
	loc, err := cronZone(zone)
	if err != nil {
		return once{}, err
	}
	s, err := schedule.Options{Zone: loc, Name: string(key), DST: schedule.DST(dst)}.Parse(text)
	if err != nil {
		return once{}, fmt.Errorf("--once-per: %w", err)
	}
	return once{schedule: s, expr: text}, nil
}

// cronZone is the zone in which the host's cron reads its table.
func cronZone(flag string) (*time.Location, error) { return cronZoneIn("/etc", flag) }

// cronZoneIn is cronZone with the host's zone in etc/localtime.
func cronZoneIn(etc, flag string) (*time.Location, error) {
	for _, z := range []struct{ from, name string }{{"--tz", flag}, {"CRON_TZ", zoneOfTZ(os.Getenv("CRON_TZ"))}, {"TZ", zoneOfTZ(os.Getenv("TZ"))}} {
		switch z.name {
		case "":
			continue
		case localtime:
			return hostsOr(etc)
		}
		loc, err := schedule.LoadZone(z.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", z.from, err)
		}
		return loc, nil
	}
	return hostsOr(etc)
}

// hostsOr is the host's zone; the error says how else to name one.
func hostsOr(etc string) (*time.Location, error) {
	loc, err := zoneIn(etc)
	if err != nil {
		err = fmt.Errorf("%w; or give the zone, as in --tz Europe/Berlin or TZ=Europe/Berlin", err)
	}
	return loc, err
}

// localtime is the file of the host's zone.
const localtime = "/etc/localtime"

// zoneOfTZ is what a variable such as TZ names, as POSIX has it: a colon may stand in front, and the name may be the
// path of a file of the zone database, or localtime.
func zoneOfTZ(value string) string {
	name := strings.TrimPrefix(value, ":")
	if path.IsAbs(name) {
		_, zone, is := strings.Cut(name, "/zoneinfo/")
		if !is {
			return name
		}
		name = zone
	}
	return databaseName(name)
}

// fire runs what the plan says, once per whatever it says.
func (o once) fire(waiting, ctx context.Context, r *runner, f scheduler.Fire) report {
	switch {
	case o.schedule != nil:
		return o.perTick(waiting, ctx, r, f)
	case o.every > 0:
		return o.perDuration(waiting, ctx, r, f)
	}
	return r.report(r.place.Fire(ctx, f))
}

// perDuration starts nothing within a distance of a start, on either side, by the store's clock. A lease beside the
// key, the gate, makes the look at history and the start one step: the store records the start only while the gate
// is live. The wait for the key may have taken long, so the look comes after it once more: others start runs of this
// key without a gate. A process that lost its gate meanwhile begins anew.
func (o once) perDuration(waiting, ctx context.Context, r *runner, f scheduler.Fire) report {
	for until := time.Now().Add(f.Wait); ; f.Wait = max(time.Until(until), 0) {
		gate, err := r.place.Keeper.Acquire(waiting, lease.Want{Key: r.key.Gate(), Holder: r.holder(r.key.Gate(), ""), Wait: r.place.Keeper.Margin().TTL, Gone: r.place.Gone, OnHeldBack: r.place.OnHeldBack})
		if err != nil {
			return r.refused(err)
		}
		rep, begun := o.behindGate(waiting, ctx, r, f, gate)
		if begun || !lostGate(gate) || waiting.Err() != nil || rep.Outcome == notDue || rep.Outcome == contended {
			return rep
		}
	}
}

func lostGate(gate *lease.Lease) bool {
	select {
	case <-gate.Lost():
		return true
	default:
		return false
	}
}

// behindGate fires f if it is due, and frees the gate at the start. It reports whether a run was begun.
func (o once) behindGate(waiting, ctx context.Context, r *runner, f scheduler.Fire, gate *lease.Lease) (rep report, begun bool) {
	free := sync.OnceFunc(func() { _ = gate.Release(context.WithoutCancel(ctx)) })
	defer free()
	due := func(ctx context.Context) error { return o.due(ctx, r) }
	if err := due(waiting); err != nil {
		return r.refused(err), false
	}
	onStart := f.OnStart
	f.Due, f.Gate = due, gate.Ref()
	f.OnStart = func(rec run.Record) { begun = true; free(); onStart(rec) }
	rep = r.report(r.place.Fire(ctx, f))
	return rep, begun
}

// due returns errNotDue if the last start of the key is too near.
func (o once) due(ctx context.Context, r *runner) error {
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	// A start further ahead than that is of a clock that was fast once, and must not silence the key until then.
	last, err := r.place.History.Runs(bounded, history.Query{Job: string(r.key), To: now.Add(o.every), Limit: 1})
	if err != nil {
		return fmt.Errorf("read the last start: %w: %w", lease.ErrUnavailable, err)
	}
	if len(last) > 0 && now.Sub(last[0].Started) < o.every {
		return fmt.Errorf("%s: %w: the last start was at %s on %s, and --once-per says %s",
			r.key, errNotDue, last[0].Started.Format(time.RFC3339), last[0].Host, o.every)
	}
	return nil
}

// errNotDue is why a run that is not due is not started.
var errNotDue = errors.New("not due")

// perTick claims the tick that is due now, and runs it if it is won.
func (o once) perTick(waiting, ctx context.Context, r *runner, f scheduler.Fire) report {
	j := o.job()
	now, err := r.now(waiting)
	if err != nil {
		return r.unclaimed(j, time.Time{}, err)
	}
	at, ok := j.Due(now, now)
	if !ok {
		return o.notDue(r, at, now)
	}
	if err := o.register(waiting, r, at); err != nil {
		return r.unclaimed(j, at, err)
	}
	if !r.host {
		r.address.backend().Remember(hostDir(), r.place.Backend)
	}
	res, a, err := r.place.Single(ctx, tick.Want{Job: string(r.key), At: at, StartBy: j.StartBy(at)}, f)
	if err != nil {
		return r.unclaimed(j, at, err)
	}
	if a.Status != tick.Won { // the winner does it beside its run
		bounded, cancel := context.WithTimeout(waiting, r.place.Keeper.Margin().RPCTimeout)
		defer cancel()
		_ = r.place.Deliver(bounded) // else the next one does
	}
	if a.Status == tick.Won {
		r.place.TidyAfter(waiting, j, string(r.key))
	}
	_ = r.place.Book.Release(context.WithoutCancel(ctx))
	if a.Status == tick.Won {
		return r.report(res)
	}
	return r.duplicate(at, a)
}

// job is what is known of the job without a store.
func (o once) job() *scheduler.Job { return scheduler.Timed(schedule.Union(o.schedule)) }

// unclaimed is the report of a run that got no answer about its tick.
func (r *runner) unclaimed(j *scheduler.Job, at time.Time, err error) report {
	if !r.host {
		r.address.backend().NoteUnclaimed(hostDir(), j, string(r.key), at, err)
	}
	return r.refused(err)
}

// notDue says which ticks lie on either side of a start that belongs to none (rule T10).
func (o once) notDue(r *runner, prev, now time.Time) report {
	next, _ := o.schedule.Next(now)
	return report{Key: string(r.key), Outcome: notDue, err: fmt.Errorf("%s: not due: the last tick of %q was at %s, too long ago to start, and the next one is at %s (%s)",
		r.key, o.expr, stampIn(prev, o.schedule.Zone()), stampIn(next, o.schedule.Zone()), "the store's time is "+now.Format(time.RFC3339))}
}

// register compares or sets the definition that the store holds for the key, so that a server with
// another crontab is refused instead of running other ticks (rule T10). The first registration
// includes the tick that is due.
func (o once) register(ctx context.Context, r *runner, at time.Time) error {
	here := &job.Spec{Schedules: []string{o.expr}, Timezone: o.schedule.Zone().String(), DST: job.DST(o.schedule.DST())}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	jobs, err := r.place.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{string(r.key)}})
	if err != nil {
		return fmt.Errorf("read the schedule of %s: %w: %w", r.key, lease.ErrUnavailable, err)
	}
	for _, j := range jobs {
		if j.Name != string(r.key) || !j.Removed.IsZero() || j.Definition == here.Definition() {
			continue
		}
		return statusError{exitInternal, fmt.Errorf("%s: the store has another schedule for this key: %s, and here it is %s; make the crontabs agree; or, when all have the new schedule, run: dibs job forget %s", r.key, scheduleOf(j), scheduleIn(fmt.Sprintf("%q", o.expr), here), r.key)}
	}
	_, err = r.place.Ticks.SetJobs(ctx, []tick.JobRequest{{Name: string(r.key), Definition: here.Definition(), Since: at}})
	if err != nil {
		return fmt.Errorf("register the schedule of %s: %w: %w", r.key, lease.ErrUnavailable, err)
	}
	return nil
}
