package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Verdict is a report for a monitor: one line, and numbers.
type Verdict struct {
	State Severity // Critical, Warning or OK
	Text  string
	Perf  []Perf
}

// Perf is a number of a verdict. Warn and Crit are the bounds above which it is bad; empty: there is none.
type Perf struct {
	Name       string
	Value      float64
	Unit       string // "s" or none
	Warn, Crit string
}

// Whole is the verdict of a whole report.
func (r Report) Whole() Verdict {
	v := Verdict{State: r.State, Text: r.Headline()}
	n := r.Numbers
	for _, x := range []struct {
		name string
		n    int
	}{{"critical", n.Critical}, {"warnings", n.Warnings}, {"servers", n.Servers}, {"workers", n.Workers}, {"jobs", n.Jobs},
		{"late", n.Late}, {"failing", n.Failing}, {"running", n.Running}, {"waiting_tasks", n.Waiting}} {
		v.Perf = append(v.Perf, Perf{Name: x.name, Value: float64(x.n)})
	}
	return v
}

// ofJobs are the kinds of problems that concern single jobs.
var ofJobs = []Kind{HeldBack, Unserved, Late, Failing, Unreadable, JobPaused}

// CheckJobs is the verdict of some jobs or keys, whose facts were read alone. A job that has not succeeded for maxAge
// is critical; 0: that does not matter. unknown are those of which the store knows nothing.
func (f Facts) CheckJobs(names []string, maxAge time.Duration) (v Verdict, unknown []string) {
	v.State = OK
	var bad, good []string
	r := Judge(f)
	for _, p := range r.Problems {
		if slices.Contains(ofJobs, p.Kind) {
			if p.Severity != Note {
				v.State = Worse(v.State, p.Severity)
			}
			bad = append(bad, p.What)
		}
	}
	for _, job := range names {
		last, runs, known := f.success(job)
		name := f.Name(job)
		if !known {
			unknown = append(unknown, name)
			continue
		}
		if at := f.Removed[job]; !at.IsZero() {
			v.State = Worse(v.State, Warning)
			bad = append(bad, name+" was removed at "+stamp(at))
			continue
		}
		age := max(f.Now.Sub(last), 0)
		p := Perf{Name: "age of " + name, Value: age.Seconds(), Unit: "s"}
		if maxAge > 0 {
			p.Crit = seconds(maxAge)
		}
		never := name + " has not succeeded yet"
		if runs >= mostRuns {
			never = fmt.Sprintf("%s has not succeeded in its last %d runs", name, runs)
		}
		switch {
		case last.IsZero() && maxAge > 0:
			v.State = Critical
			bad = append(bad, never)
		case last.IsZero():
			good = append(good, never)
		case maxAge > 0 && age > maxAge:
			v.State = Critical
			bad = append(bad, fmt.Sprintf("%s succeeded last %s ago, at %s", name, age.Round(time.Second), stamp(last)))
		default:
			good = append(good, fmt.Sprintf("%s succeeded %s ago", name, age.Round(time.Second)))
		}
		if !last.IsZero() {
			v.Perf = append(v.Perf, p)
		}
	}
	v.Text = strings.Join(append(bad, good...), "; ")
	return v, unknown
}

// seconds is a bound as a number without an exponent.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// success is when a job succeeded last, among the runs that were read, and how many these are. known is false if the
// store knows nothing of it.
func (f Facts) success(name string) (last time.Time, runs int, known bool) {
	known = !f.Removed[name].IsZero() || slices.ContainsFunc(f.Jobs, func(j Job) bool { return j.Job.Name == name }) ||
		slices.ContainsFunc(f.Ticks, func(t tick.Tick) bool { return t.Job == name })
	for _, x := range f.Runs {
		if x.Job == name {
			runs++
			if x.Outcome == run.Succeeded && x.Ended.After(last) {
				last = x.Ended
			}
		}
	}
	return last, runs, known || runs > 0
}

// QueueBounds are what is too much in a queue; 0: that does not matter.
type QueueBounds struct {
	Oldest time.Duration
	Depth  int
}

// CheckQueue is the verdict of one queue. known is false if it has neither tasks nor workers.
func (f Facts) CheckQueue(name string, most QueueBounds) (v Verdict, known bool) {
	v.State = OK
	var q Queue
	for _, each := range f.PerQueue() {
		if each.Queue == name {
			q, known = each, true
		}
	}
	if !known {
		return v, false
	}
	var bad []string
	for _, p := range Queues(f.Queues, f.Workers, f.Pauses, f.Now) {
		if (p.Subject == name || p.Subject == "" && p.Kind == Paused) && (p.Kind != QueueOld || most.Oldest == 0) {
			if p.Severity != Note {
				v.State = Worse(v.State, p.Severity)
			}
			bad = append(bad, p.What)
		}
	}
	age := time.Duration(0)
	if !q.Oldest.IsZero() {
		age = max(f.Now.Sub(q.Oldest), 0)
	}
	waiting, oldest := Perf{Name: "waiting", Value: float64(q.Waiting)}, Perf{Name: "oldest", Value: age.Seconds(), Unit: "s"}
	if most.Depth > 0 {
		if waiting.Crit = fmt.Sprint(most.Depth); q.Waiting > most.Depth {
			v.State = Critical
			bad = append(bad, fmt.Sprintf("%s wait in queue %s, more than %d", counted(q.Waiting, "task"), name, most.Depth))
		}
	}
	if most.Oldest > 0 {
		if oldest.Crit = seconds(most.Oldest); age > most.Oldest {
			v.State = Critical
			bad = append(bad, fmt.Sprintf("the oldest task of queue %s has waited for %s", name, age.Round(time.Second)))
		}
	}
	bad = append(bad, fmt.Sprintf("queue %s: %d waiting, %d running, %d failed, %s", name, q.Waiting, q.Running, q.Failed, counted(q.Workers, "worker")))
	if q.Paused {
		bad = append(bad, "paused")
	}
	v.Text = strings.Join(bad, "; ")
	v.Perf = []Perf{waiting, oldest, {Name: "running", Value: float64(q.Running)}, {Name: "failed", Value: float64(q.Failed)}, {Name: "workers", Value: float64(q.Workers)}}
	return v, true
}
