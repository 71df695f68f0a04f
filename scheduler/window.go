package scheduler

import (
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// windows are the times at which a job may run, by the wall clock of its zone. A tick outside them is skipped, for
// good. That depends on the tick alone, so nobody claims it: it is settled.
type windows struct {
	zone            *time.Location
	between, unless []schedule.Window
}

// windowsOf reads the windows of a policy, which the manifest's check has accepted.
func windowsOf(spec *job.Spec) (w windows, err error) {
	if len(spec.Policy.Between) == 0 && len(spec.Policy.UnlessBetween) == 0 {
		return w, nil
	}
	if w.zone, err = schedule.LoadZone(spec.Timezone); err != nil {
		return w, err
	}
	for _, text := range spec.Policy.Between {
		one, err := schedule.ParseWindow(text)
		if err != nil {
			return w, err
		}
		w.between = append(w.between, one)
	}
	for _, text := range spec.Policy.UnlessBetween {
		one, err := schedule.ParseWindow(text)
		if err != nil {
			return w, err
		}
		w.unless = append(w.unless, one)
	}
	return w, nil
}

// open reports whether a tick may run.
func (w windows) open(at time.Time) bool {
	if w.zone == nil {
		return true
	}
	local, in := at.In(w.zone), len(w.between) == 0
	for _, one := range w.between {
		in = in || one.Contains(local)
	}
	for _, one := range w.unless {
		in = in && !one.Contains(local)
	}
	return in
}

// fate returns the outcome, and its reason, of a tick that nobody claimed.
func (w windows) fate(p tick.Pause, at time.Time) (run.Outcome, string) {
	switch {
	case p.Covers(at):
		return run.Paused, PauseText(p)
	case !w.open(at):
		return run.Skipped, run.ReasonWindow
	}
	return run.Missed, "no server claimed it in time"
}
