// Package status reads how a fleet is, and judges it: who is alive, what is wrong, what runs, what is due, what waits.
//
// Read gathers the facts in a bounded number of requests, whatever the store holds. Judge makes a report of them; it
// reads neither a store nor a clock. `dibs status`, `dibs check` and `dibs doctor` have their findings from here.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/fleet"
)

// Severity is how bad a problem is.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // something does not run
	Warning  Severity = "warning"  // something will not run, or not on time
	Note     Severity = "note"     // nothing is wrong now, but somebody who looks wants to know
	OK       Severity = "ok"       // of a report without a problem
)

var ranks = []Severity{Critical, Warning, Note, OK}

// Worse returns the worse one of two severities.
func Worse(a, b Severity) Severity {
	return ranks[min(slices.Index(ranks, a), slices.Index(ranks, b))]
}

// Kind names what is wrong. The names are a stable form.
type Kind string

// The kinds, in the order in which problems of one severity are listed.
const (
	StoreAway  Kind = "store-away"     // the store does not answer
	StoreSlow  Kind = "store-slow"     // the store answers, but not to all that was asked in time
	HeldBack   Kind = "held-back"      // the store is new or was restarted, and grants nothing yet
	Unserved   Kind = "app-unserved"   // nobody serves an app that had a server within the last day
	Late       Kind = "late"           // a tick is due, and no server has claimed it
	Unworked   Kind = "queue-unworked" // tasks wait, and no worker takes them
	Failing    Kind = "failing"        // the last tick or run of a job ended badly
	Unreadable Kind = "unreadable"     // the schedule of a job cannot be read here
	Gone       Kind = "server-gone"    // a server or worker died, is cut off, or is stopped
	Clock      Kind = "fleet-clock"    // the clock of a server is off
	QueueOld   Kind = "queue-waiting"  // the oldest task of a queue has waited for long
	Paused     Kind = "queue-paused"   // a queue has been paused for a day
	Failed     Kind = "failed"         // a job ended badly within the last day, and well since
	StoreBack  Kind = "store-back"     // servers have lost their leases, and have new ones
	JobPaused  Kind = "job-paused"     // a job is paused
	Cut        Kind = "cut"            // there is more than was looked at
)

var kinds = []Kind{StoreAway, StoreSlow, HeldBack, Unserved, Late, Unworked, Failing, Unreadable, Gone, Clock, QueueOld, Paused, Failed, StoreBack, JobPaused, Cut}

// A Problem is one thing that is wrong. Its JSON is a stable form.
type Problem struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind"`
	// Subject is the job, the app, the queue, or host:pid.
	Subject string `json:"subject,omitempty"`
	// What says it in a sentence.
	What string `json:"what"`
	// Cure is what to do, or where to look.
	Cure string `json:"cure,omitempty"`
	// Since is when it began, or was seen last; Count is how many there were. Zero: that is not known.
	Since time.Time `json:"since,omitzero"`
	Count int       `json:"count,omitempty"`
}

// A Report is how a fleet is. Its JSON is a stable form.
type Report struct {
	State    Severity  `json:"state"` // the worst of Problems
	At       time.Time `json:"at,omitzero"`
	Problems []Problem `json:"problems"`
	// Running, Due, Queues and Servers have MostListed entries each at most; the numbers are of all.
	Running []Run   `json:"running"`
	Due     []Due   `json:"due"` // within the next hour, the next one first
	Queues  []Queue `json:"queues"`
	// Servers are those that are alive or gone (fleet.Census.Current).
	Servers []fleet.Member `json:"-"`
	Numbers Numbers        `json:"numbers"`
}

// MostListed bounds each list of a report, and its problems of one kind.
const MostListed = 1000

// Numbers are how many there are.
type Numbers struct {
	Jobs     int `json:"jobs"`
	Paused   int `json:"paused_jobs"`
	Servers  int `json:"servers"` // up
	Workers  int `json:"workers"` // up
	Running  int `json:"running"`
	Due      int `json:"due"`
	Locks    int `json:"locks"` // held leases that are no run's
	Waiting  int `json:"waiting_tasks"`
	Critical int `json:"critical"`
	Warnings int `json:"warnings"`
	Late     int `json:"late"`    // problems of kind Late
	Failing  int `json:"failing"` // problems of kind Failing
}

// A Run is one that holds its lease now.
type Run struct {
	Job   string    `json:"job"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	RunID string    `json:"run_id"`
	Since time.Time `json:"since"`
}

// A Due is a job and its next tick.
type Due struct {
	Job  string    `json:"job"`
	Tick time.Time `json:"tick"`
}

// A Queue is how much waits in a queue, and who works it.
type Queue struct {
	Queue   string    `json:"queue"`
	Waiting int       `json:"waiting"` // due or not: scheduled, available, retryable, blocked
	Running int       `json:"running"`
	Workers int       `json:"workers"`
	Oldest  time.Time `json:"oldest,omitzero"`  // since when the oldest task that could run waits
	Failed  int       `json:"failed"`           // failed or crashed, as long as they are kept
	Paused  bool      `json:"paused,omitempty"` // each of its kinds is
	// Due is Oldest, but of the kinds that are not paused.
	Due time.Time `json:"-"`
}

// Headline says in one line how the fleet is: its worst problem, or that there is none.
func (r Report) Headline() string {
	serious := r.Numbers.Critical + r.Numbers.Warnings
	if serious == 0 {
		s := fmt.Sprintf("%s, %s, %s: nothing is late or failing", counted(r.Numbers.Servers, "server"), counted(r.Numbers.Workers, "worker"), counted(r.Numbers.Jobs, "job"))
		if len(r.Problems) > 0 {
			s += "; " + r.Problems[0].What
		}
		return s
	}
	s := r.Problems[0].What
	if serious > 1 {
		s = strings.TrimSuffix(s, ".") + "; " + counted(serious-1, "more problem")
	}
	return s
}

// Sorted returns a report of these problems, the worst first.
func (r Report) Sorted() Report {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Severity), slices.Index(ranks, b.Severity)),
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			b.Since.Compare(a.Since), cmp.Compare(a.Subject, b.Subject))
	})
	r.State = OK
	n := &r.Numbers
	n.Critical, n.Warnings, n.Late, n.Failing = 0, 0, 0, 0
	listed := map[Kind]int{}
	kept := []Problem{}
	for _, p := range r.Problems {
		switch p.Severity {
		case Critical:
			n.Critical++
		case Warning:
			n.Warnings++
		}
		switch p.Kind {
		case Late:
			n.Late++
		case Failing:
			n.Failing++
		}
		if p.Severity != Note {
			r.State = Worse(r.State, p.Severity)
		}
		if listed[p.Kind]++; listed[p.Kind] <= MostListed {
			kept = append(kept, p)
		}
	}
	r.Problems = kept
	return r
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// some names the first few.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ")
}
