package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// A Job is a job that a Server serves: Spec says when, and under which policies; Target does the work that Spec
// names. Do not change Spec once the Job is in use.
type Job struct {
	Spec   job.Spec
	Target run.Target
	// Holder and Output are as in Fire. Output is called per run, before the lease is acquired, and its result is
	// closed after the release: this tick, and the end of a Server, wait for both. A Write that took too long may
	// still continue during the Close.
	Holder func(key lease.Key, runID string) lease.Holder
	Output func(run.Record) io.WriteCloser
	// When is as in Fire.
	When func(context.Context) (bool, error)
	// Dormant jobs are registered and accounted for, but left to other servers to run.
	Dormant bool

	given   *schedule.Set // in place of Spec's own: the part of it for which a definition is in force
	once    sync.Once     // guards what follows: see rules
	set     schedule.Set
	late    time.Duration
	spread  time.Duration
	windows windows
	wrong   error
}

// key returns the job's name in the store, which is also the key of its lease.
func (j *Job) key() lease.Key { return lease.Key(j.Spec.Key()) }

// maxLate bounds the starting deadline of a job that sets none (rule T4).
const maxLate = 5 * time.Minute

// rules returns what follows from a job's policy for its ticks, computed when first needed.
func (j *Job) rules() *Job {
	j.once.Do(func() {
		if j.given != nil {
			j.set = *j.given
		} else if j.set, j.wrong = SetOf(&j.Spec); j.wrong != nil {
			j.wrong = fmt.Errorf("%s: %w", j.Spec.Key(), j.wrong)
		}
		j.spread = spread(j.Spec.Key(), j.Spec.Policy.Jitter)
		j.late = j.Spec.Policy.StartingDeadline
		if j.late <= 0 {
			j.late = min(j.set.Period()/2, maxLate)
		}
		if j.late <= 0 {
			j.late = maxLate // a schedule with a single tick has no period
		}
		var err error
		if j.windows, err = windowsOf(&j.Spec); err != nil {
			j.wrong = errors.Join(j.wrong, fmt.Errorf("%s: %w", j.Spec.Key(), err))
		}
	})
	return j
}

// Set returns the instants at which the job is due, from Spec.Schedules; none if Check refuses them.
func (j *Job) Set() schedule.Set { return j.rules().set }

// Timed returns a Job of which only the schedule is known. It can say which tick is due and how late that may start;
// it cannot be served.
func Timed(set schedule.Set) *Job { return &Job{given: &set} }

// Starts returns when a tick's run should start: at the tick, or later by the job's share of its jitter.
func (j *Job) Starts(at time.Time) time.Time { return at.Add(j.rules().spread) }

// StartBy returns how late a tick may start without counting as missed: by default half the period, at most 5
// minutes (rule T4), after the instant at which it should start.
func (j *Job) StartBy(at time.Time) time.Time {
	r := j.rules()
	return at.Add(r.spread + r.late)
}

// Open reports whether a tick is within the windows in which the job may run.
func (j *Job) Open(at time.Time) bool { return j.rules().windows.open(at) }

// Check returns what is wrong with a job, before it is served.
func (j *Job) Check() error { return j.rules().wrong }

// Due returns the tick that a start at an instant is for: the latest one that is not more than tick.Ahead in the
// future. ok is false if now is too late to start it, or if there is none; at may still be the tick that was too
// long ago.
func (j *Job) Due(started, now time.Time) (at time.Time, ok bool) {
	at, ok = j.Set().Prev(started.Add(tick.Ahead))
	return at, ok && !j.StartBy(at).Before(now)
}

// Fate returns the outcome, and its reason, of a tick that nobody claimed, given the job's last pause.
func (j *Job) Fate(p tick.Pause, at time.Time) (run.Outcome, string) {
	return j.rules().windows.fate(p, at)
}

// spread returns how much later than its tick a job starts: less than its jitter, always the same for this job, and
// different for others, so that what is due at midnight does not all begin at once.
func spread(name string, jitter time.Duration) time.Duration {
	whole := int64(jitter / time.Millisecond)
	if whole <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(whole)) * time.Millisecond
}

// fire returns a fire of the job for a tick; call done after it.
func (j *Job) fire(at time.Time) (f Fire, done func()) {
	f = Fire{Key: j.key(), Tick: at, Target: j.Target, Policy: j.Spec.Policy, Limits: limits(j.Spec),
		Command: describe(j.Spec), Holder: j.Holder, When: j.When, RunID: run.NewID(), Previous: true}
	if j.Output == nil {
		return f, func() {}
	}
	out := j.Output(run.Record{ID: f.RunID, Job: string(f.Key), Tick: at})
	f.Output = out
	return f, func() { _ = out.Close() }
}

func limits(j job.Spec) run.Limits {
	p := j.Policy
	return run.Limits{Timeout: p.Timeout, Deadline: p.Deadline, Attempts: p.Retries.MaxAttempts,
		Backoff: func(n int) time.Duration { return backoff(p.Retries, n, rand.Float64()) }}
}

// backoff returns the pause after attempt n: it doubles from Min up to Max, and up to a quarter of it is added at
// random, so that jobs which failed together do not all come back together.
func backoff(r job.Retries, n int, random float64) time.Duration {
	most := max(r.Max, r.Min)
	d := r.Min
	for range n - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return min(d+time.Duration(random*float64(d)/4), most)
}

// describe returns the work of a job in one line.
func describe(j job.Spec) string {
	switch {
	case j.Command != nil && j.Command.Shell != "":
		return j.Command.Shell
	case j.Command != nil:
		return strings.Join(j.Command.Args, " ")
	case j.Request != nil:
		return j.Request.Method + " " + public(j.Request.URL)
	case j.Task != nil:
		return "enqueue " + j.Task.Kind + " into " + j.Task.Queue
	case j.Function != nil:
		return "go " + j.Function.Name
	}
	return ""
}

// public returns an address without what may be secret in it.
func public(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that cannot be read)"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}
