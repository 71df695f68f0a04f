package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// Decide concludes what became of the tick. It reads no store and no clock.
func Decide(f Facts) Account {
	a := Account{Job: f.Name, Tick: f.At, Host: f.Host, Heard: f.Heard, Runs: f.Runs, Again: f.Again, Zone: time.UTC}
	a.define(f)
	for _, e := range f.Events {
		if e.Tick.Equal(f.At) && e.Kind != differs {
			a.Remarks = append(a.Remarks, remark(e))
		}
	}
	switch {
	case f.Row != nil:
		a.recorded(f)
	case f.Definition == nil:
		// Its runs belong to no tick: the last one before what was asked for is told.
		a.Outcome, a.Tick, a.Runs = NoSchedule, time.Time{}, f.Around[:min(1, len(f.Around))]
		if a.Spaced = f.Spaced; f.Holder.Key != "" {
			a.Blocker = blockedBy(f.Holder.Holder.String(), f.Holder.Acquired, f.Holder.Holder.RunID, f.Around)
		}
	default:
		a.unrecorded(f)
	}
	if a.Outcome == string(run.Missed) {
		a.Hosts, a.Differs = sightings(f), differing(f.Events)
	}
	return a
}

func (a *Account) define(f Facts) {
	d := f.Definition
	if d == nil {
		return
	}
	a.Schedules, a.Timezone, a.Zone, a.Description = d.Spec.Schedules, d.Spec.Timezone, d.Zone, d.Set.Description()
	a.Since, a.Until, a.Removed = d.Since, d.Until, d.Removed
	if d.Spec.Function != nil {
		a.Work = "function"
	}
	a.Ahead = scheduler.AheadText(d.Job, f.Now)
	if prev, ok := d.Set.Prev(f.At.Add(-time.Nanosecond)); ok && d.covers(prev) {
		a.Previous = prev
	}
	from := f.At
	if from.Before(d.Since) {
		from = d.Since.Add(-time.Nanosecond)
	}
	if next, ok := d.Set.Next(from); ok && d.covers(next) {
		a.Next = next
	}
	if !d.has(f.At) {
		return
	}
	if d.Pause.Stops(f.At, f.Now) {
		a.Pause = &d.Pause
	}
	a.StartBy = d.job.StartBy(f.At)
	if p := d.Spec.Policy; p.CatchUp == job.CatchUpAll || p.CatchUp == job.CatchUpLatest {
		a.CatchUpUntil = f.At.Add(p.CatchUpWindow)
	}
}

// recorded tells a tick that has a row.
func (a *Account) recorded(f Facts) {
	t := f.Row
	a.Outcome, a.Reason, a.Inferred, a.Reruns = string(t.Outcome), t.Reason, t.Inferred, t.Reruns
	a.Claimed, a.Started, a.Ended = t.Claimed, t.Started, t.Ended
	if t.Count > 1 {
		a.From, a.Through, a.Count = t.At, t.Through, t.Count
	}
	if c := t.Claimant; c.Host != "" {
		a.Claimant = &Process{c.Host, c.PID}
	}
	if t.State != tick.Closed {
		a.Outcome, a.Alive = string(t.State), t.Live
	}
	switch {
	case t.State == tick.Claimed && t.Live && f.Holder.Key != "":
		a.Blocker = blockedBy(f.Holder.Holder.String(), f.Holder.Acquired, f.Holder.Holder.RunID, f.Around)
	case t.Outcome == run.Skipped:
		a.Blocker = skippedFor(f)
	case t.Outcome == run.Replaced:
		a.Replaced = replacedBy(f)
	}
}

// unrecorded tells a tick of which the store holds nothing.
func (a *Account) unrecorded(f Facts) {
	d := f.Definition
	switch {
	case !d.has(f.At):
		a.Outcome = NoTick
	case f.At.After(f.Now):
		a.Outcome = NotDue
	case f.Host != "":
		a.Outcome = NotTold // it exists only if the host was there, and that is for the host to say
	case !f.At.After(d.Mark) && a.Ahead == "":
		a.Outcome = Forgotten
	default:
		outcome, reason := d.job.Fate(d.Pause, f.At)
		switch {
		case outcome != run.Missed: // nobody will claim it, so it is certain before it is settled
			a.Outcome, a.Reason, a.Unsettled = string(outcome), reason, true
		case !d.over(f.At, f.Now, f.TTL):
			a.Outcome = Due
		default:
			a.Outcome, a.Unsettled = string(run.Missed), true
		}
	}
}

// skippedFor is who had the lease, by the event of the skip; where there is none, the run that was
// at work.
func skippedFor(f Facts) *Blocker {
	for _, e := range slices.Backward(f.Events) {
		if e.Kind != "tick-skipped" || !concerns(e, f.At) {
			continue
		}
		_, held, ok := strings.Cut(e.Why(), "held by ")
		if !ok {
			continue
		}
		who, since, _ := strings.Cut(held, " since ")
		at, _ := time.Parse(time.RFC3339, since)
		_, id, _ := strings.Cut(who, " run ")
		return blockedBy(who, at, id, f.Around)
	}
	for _, r := range f.Around {
		if r.Started.Before(f.Row.Ended) && (r.Ended.IsZero() || r.Ended.After(f.Row.Ended)) {
			b := blockedBy(lease.Holder{Host: r.Host, PID: r.PID, RunID: r.ID}.String(), r.Started, r.ID, f.Around)
			b.Inferred = true
			return b
		}
	}
	return nil
}

// concerns says whether an event is of a tick, or stands for several of which it is one.
func concerns(e history.Event, at time.Time) bool {
	n, _, last := e.Times()
	return e.Tick.Equal(at) || n > 1 && !e.Tick.IsZero() && !at.Before(e.Tick) && !at.After(last)
}

// blockedBy completes what is known of a holder with what became of its run.
func blockedBy(who string, since time.Time, id string, runs []run.Record) *Blocker {
	b := &Blocker{Holder: who, Since: since, RunID: id}
	for _, r := range runs {
		if r.ID == id {
			b.Outcome, b.Ended = r.Outcome, r.Ended
		}
	}
	return b
}

// replacedBy is whoever asked a run of this tick to stop, the last to ask.
func replacedBy(f Facts) *Newcomer {
	for _, e := range slices.Backward(f.Events) {
		for _, r := range f.Runs {
			if e.Kind == "replace-asked" && strings.Contains(e.Reason, r.ID) {
				return &Newcomer{e.Tick, e.RunID, e.Host, e.At}
			}
		}
	}
	return nil
}

// differs is the event of a server that fires nothing of a job (rule T11).
const differs = "manifest-differs"

func differing(events []history.Event) (all []Remark) {
	for _, e := range events {
		if e.Kind == differs {
			all = append(all, remark(e))
		}
	}
	return all
}

func remark(e history.Event) Remark { return Remark{e.At, e.Kind, e.Host, e.Reason} }

// sightings sums up, by host, who started something around the tick.
func sightings(f Facts) (all []Sighting) {
	for _, r := range f.Seen {
		i := slices.IndexFunc(all, func(s Sighting) bool { return s.Host == r.Host })
		if i < 0 {
			all = append(all, Sighting{Host: r.Host})
			i = len(all) - 1
		}
		switch s := &all[i]; { // the latest come first
		case !r.Started.Before(f.At):
			s.After = r.Started
		case s.Before.IsZero():
			s.Before = r.Started
		}
	}
	slices.SortFunc(all, func(x, y Sighting) int { return strings.Compare(x.Host, y.Host) })
	return all
}
