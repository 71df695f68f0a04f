package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// windows are when a job may run, by the wall clock of its zone. A tick outside them is skipped, for
// good. That depends on the tick alone, so nobody claims it: it is settled.
type windows struct {
	zone            *time.Location
	between, unless []schedule.Window
}

// windowsOf reads those of a policy, which the manifest's check has accepted.
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

// Fate is the outcome, and its reason, of a tick that nobody claimed, under the job's last pause.
func (j *Job) Fate(p tick.Pause, at time.Time) (run.Outcome, string) {
	return j.rules().windows.fate(p, at)
}

func (w windows) fate(p tick.Pause, at time.Time) (run.Outcome, string) {
	switch {
	case p.Covers(at):
		return run.Paused, PausedBy(p)
	case !w.open(at):
		return run.Skipped, run.ReasonWindow
	}
	return run.Missed, "no server claimed it in time"
}

// spread is how much later than its tick a job starts: less than its jitter, always the same for
// this job, and another for others, so that what is due at midnight does not all begin at once.
func spread(name string, jitter time.Duration) time.Duration {
	whole := int64(jitter / time.Millisecond)
	if whole <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(whole)) * time.Millisecond
}

// rules are what follows from a job's policy for its ticks, made when first asked for.
func (j *Job) rules() *Job {
	j.once.Do(func() {
		j.spread = spread(j.Spec.Key(), j.Spec.Policy.Jitter)
		j.late = j.Spec.Policy.StartingDeadline
		if j.late <= 0 {
			j.late = min(j.Set.Period()/2, maxLate)
		}
		if j.late <= 0 {
			j.late = maxLate // a schedule with a single tick has no period
		}
		if j.windows, j.wrong = windowsOf(&j.Spec); j.wrong != nil {
			j.wrong = fmt.Errorf("%s: %w", j.Spec.Key(), j.wrong)
		}
	})
	return j
}

// Starts is when a tick's run is to start: at the tick, or later by the job's share of its jitter.
func (j *Job) Starts(at time.Time) time.Time { return at.Add(j.rules().spread) }

// StartBy is how late a tick may start and not count as missed: by default half the period, at
// most 5 minutes (rule T4), after the instant at which it is to start.
func (j *Job) StartBy(at time.Time) time.Time { return j.Starts(at).Add(j.late) }

// Open reports whether a tick lies within the windows in which the job may run.
func (j *Job) Open(at time.Time) bool { return j.rules().windows.open(at) }

// Check finds what is wrong with a job before it is served.
func (j *Job) Check() error { return j.rules().wrong }
