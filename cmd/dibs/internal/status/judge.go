package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// Judge makes a report of facts.
func Judge(f Facts) Report {
	r := Report{At: f.Now, Servers: f.Census.Current(), Running: []Run{}, Due: []Due{}, Queues: []Queue{}}
	add := func(all ...Problem) { r.Problems = append(r.Problems, all...) }
	jobs := make([]tick.Job, len(f.Jobs))
	for i, j := range f.Jobs {
		jobs[i] = j.Job
	}
	if f.HoldUntil.After(f.Now) {
		add(Problem{Severity: Warning, Kind: HeldBack, Since: f.HoldUntil,
			What: fmt.Sprintf("the store is new, was restarted or forgot everything: it grants nothing until %s (rule L9)", stamp(f.HoldUntil))})
	}
	add(Fleet(f.Census, jobs)...)
	add(back(f.Census)...)
	for _, l := range f.Late {
		add(Problem{Severity: Critical, Kind: Late, Subject: f.Name(l.Job), Since: l.At, Cure: "`dibs explain " + word(l.Job) + "` says more.",
			What: fmt.Sprintf("%s has been due since %s, and no server has claimed it", f.Name(l.Job), stamp(l.At))})
	}
	add(Queues(f.Queues, f.Workers, f.Pauses, f.Now)...)
	add(f.ends()...)
	add(f.registered()...)
	if len(f.Cut) > 0 {
		add(Problem{Severity: Note, Kind: Cut, What: "there is too much to look at all of it: this report considers " + strings.Join(f.Cut, "; ")})
	}
	f.list(&r)
	return r.Sorted()
}

// registered judges the jobs as they are registered.
func (f Facts) registered() (all []Problem) {
	var paused, unreadable []string
	for _, j := range f.Jobs {
		switch {
		case j.Err != nil:
			unreadable = append(unreadable, fmt.Sprintf("%s (%v)", j.Job.Name, j.Err))
		case j.Job.Pause.Covers(f.Now):
			paused = append(paused, j.Job.Name+" "+scheduler.PauseText(j.Job.Pause))
		}
	}
	if n := len(unreadable); n > 0 {
		all = append(all, Problem{Severity: Warning, Kind: Unreadable, Count: n, What: "the schedule of " + counted(n, "job") + " cannot be read on this host: " + some(unreadable)})
	}
	if n := len(paused); n > 0 {
		all = append(all, Problem{Severity: Note, Kind: JobPaused, Count: n, What: counted(n, "job") + " paused: " + some(paused)})
	}
	return all
}

// ended is how the ticks and runs of a job ended within the last day.
type ended struct {
	from time.Time // before it, bad ends are not counted
	bad  map[run.Outcome]int
	// last is the latest end that says whether the job works: a good one, or a bad one; latest is its instant.
	last   run.Outcome
	latest time.Time
	host   string
	reason string
	id     string
}

// Bad reports whether an outcome is that of what was due, or begun, and did not come to a good end. What was skipped,
// paused, replaced or canceled was meant to be.
func Bad(o run.Outcome) bool { return slices.Contains(BadOutcomes, o) }

// BadOutcomes are those of which Bad is true.
var BadOutcomes = []run.Outcome{run.Failed, run.TimedOut, run.Lost, run.Crashed, run.Missed, run.Unavailable}

// says reports whether an outcome says whether the job works.
func says(o run.Outcome) bool { return Bad(o) || o == run.Succeeded }

// endOf is when a tick ended or, if it did not run, when it was due.
func endOf(t tick.Tick) time.Time {
	if t.Outcome.Ran() && !t.Ended.IsZero() {
		return t.Ended
	}
	return lastOf(t)
}

// lastOf is the last tick that a row stands for.
func lastOf(t tick.Tick) time.Time {
	if t.Through.After(t.At) {
		return t.Through
	}
	return t.At
}

func (e *ended) add(o run.Outcome, n int, at time.Time, host, reason, id string) {
	if Bad(o) && !at.Before(e.from) {
		e.bad[o] += n
	}
	if says(o) && at.After(e.latest) {
		e.last, e.latest, e.host, e.reason, e.id = o, at, host, reason, id
	}
}

// ends judges how jobs ended within the last day: one problem per job.
func (f Facts) ends() (all []Problem) {
	jobs := map[string]*ended{}
	of := func(job string) *ended {
		if jobs[job] == nil {
			jobs[job] = &ended{from: f.Now.Add(-Day), bad: map[run.Outcome]int{}}
		}
		return jobs[job]
	}
	host := map[string]string{} // by run
	for _, x := range f.Runs {
		host[x.ID] = x.Host
	}
	addTick := func(t tick.Tick) {
		of(t.Job).add(t.Outcome, max(t.Count, 1), endOf(t), host[t.RunID], t.Reason, t.RunID)
	}
	for _, t := range slices.Concat(f.Ticks, f.Unsettled) {
		addTick(t)
	}
	for _, x := range f.alone() {
		of(x.Job).add(x.Outcome, 1, cmp.Or(x.Ended, x.Started), x.Host, x.Reason, x.ID)
	}
	for _, t := range f.Latest { // of those after From, Ticks tells
		if last := lastOf(t); last.Before(f.From) && last.After(f.Now.Add(-Day)) {
			addTick(t)
		}
	}
	for job, e := range jobs {
		if (len(e.bad) > 0 || Bad(e.last)) && f.Removed[job].IsZero() {
			all = append(all, f.bad(job, *e))
		}
	}
	return all
}

// alone are the runs that are no tick's. One that has not ended, and whose lease is gone, has crashed.
func (f Facts) alone() (all []run.Record) {
	live := map[string]bool{}
	for _, l := range f.Held {
		live[l.Holder.RunID] = true
	}
	for _, x := range f.Runs {
		if !x.Tick.IsZero() {
			continue
		}
		if x.Outcome == "" && !live[x.ID] && !ofHost(x.Job) && f.Now.Sub(x.Started) > 2*f.TTL && !f.MoreHeld {
			x.Outcome, x.Reason = run.Crashed, "it lost its lease and did not report"
		}
		all = append(all, x)
	}
	return all
}

// A Last is how a job ended last: well, or badly. What was skipped, paused, replaced or canceled says nothing.
type Last struct {
	Success time.Time // of the last good end; zero: none is known
	End     time.Time
	Outcome run.Outcome
}

// Lasts tells of each job and key how it ended last. Of those that have not ended within the last day it knows as much
// as Options.Lasts had read.
func (f Facts) Lasts() map[string]Last {
	all := map[string]Last{}
	add := func(job string, o run.Outcome, at time.Time) {
		l := all[job]
		if o == run.Succeeded && at.After(l.Success) {
			l.Success = at
		}
		if says(o) && at.After(l.End) {
			l.End, l.Outcome = at, o
		}
		if says(o) {
			all[job] = l
		}
	}
	for _, t := range slices.Concat(f.Ticks, f.Latest, f.Unsettled) {
		add(t.Job, t.Outcome, endOf(t))
	}
	for _, x := range f.alone() {
		add(x.Job, x.Outcome, cmp.Or(x.Ended, x.Started))
	}
	return all
}

// bad makes a problem of a job that ended badly. The commands know a host's own job by its plain name.
func (f Facts) bad(name string, e ended) Problem {
	job := f.Name(name)
	plain, _ := mirror.Split(name)
	plain = word(plain)
	n, counts := 0, []string{}
	for _, o := range BadOutcomes {
		if e.bad[o] > 0 {
			n += e.bad[o]
			counts = append(counts, fmt.Sprintf("%d %s", e.bad[o], strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	p := Problem{Severity: Note, Kind: Failed, Subject: job, Since: e.latest, Count: n, Cure: "`dibs history " + plain + " --failed` shows them."}
	p.What = fmt.Sprintf("%s succeeded at %s; within 24 h: %s", job, stamp(e.latest), strings.Join(counts, ", "))
	if Bad(e.last) {
		p.Severity, p.Kind = Critical, Failing
		p.What = job + " " + badly[e.last] + " at " + stamp(e.latest)
		if e.host != "" && !ofHost(name) {
			p.What += " on " + e.host
		}
		if e.reason != "" && e.reason != badly[e.last] {
			p.What += ": " + firstLine(e.reason)
		}
		if n > 1 {
			p.What += "; within 24 h: " + strings.Join(counts, ", ")
		}
		if e.last == run.Missed {
			p.Cure = "`dibs explain " + plain + " --at " + stamp(e.latest) + "` says more."
		} else if e.id != "" {
			p.Cure = "`dibs history --log --run " + e.id + "` shows what it printed."
		}
	}
	return p
}

// word is a name as a shell takes it.
func word(name string) string {
	if strings.IndexFunc(name, func(r rune) bool {
		return r <= '~' && !strings.ContainsRune("/._:@%+,-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

var badly = map[run.Outcome]string{run.Failed: "failed", run.TimedOut: "timed out", run.Lost: "lost its lease", run.Crashed: "crashed",
	run.Missed: "was missed", run.Unavailable: "could not start"}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// Running are the runs that hold their leases, the oldest first.
func (f Facts) Running() (all []Run) {
	jobOf := map[string]string{} // by run
	for _, x := range f.Runs {
		jobOf[x.ID] = x.Job
	}
	for _, l := range f.Held {
		if l.Holder.RunID == "" {
			continue
		}
		job := l.Key.String()
		if l.Key.Once() {
			job = cmp.Or(jobOf[l.Holder.RunID], l.Holder.Command)
		}
		all = append(all, Run{f.Name(job), l.Holder.Host, l.Holder.PID, l.Holder.RunID, l.Acquired})
	}
	slices.SortStableFunc(all, func(a, b Run) int { return a.Since.Compare(b.Since) })
	return all
}

// list fills the lists of a report, and its numbers.
func (f Facts) list(r *Report) {
	n := &r.Numbers
	n.Jobs = len(f.Jobs)
	for _, m := range r.Servers {
		switch {
		case !m.Alive():
		case m.App != "":
			n.Servers++
		default:
			n.Workers++
		}
	}
	r.Running = append(r.Running, f.Running()...)
	n.Locks = len(f.Held) - len(r.Running)
	for _, j := range f.Jobs {
		if j.Job.Pause.Covers(f.Now) {
			n.Paused++
		}
		if j.Err != nil {
			continue
		}
		if at, ok := j.Definition.Set.Next(f.Now); ok && !at.After(f.Now.Add(time.Hour)) && !j.Job.Pause.Stops(at, f.Now) {
			r.Due = append(r.Due, Due{j.Job.Name, at})
		}
	}
	slices.SortStableFunc(r.Due, func(a, b Due) int { return a.Tick.Compare(b.Tick) })
	n.Running, n.Due = len(r.Running), len(r.Due)
	r.Running, r.Due = r.Running[:min(n.Running, MostListed)], r.Due[:min(n.Due, MostListed)]
	r.Queues = append(r.Queues, f.PerQueue()...)
	for _, q := range r.Queues {
		n.Waiting += q.Waiting
	}
	r.Queues = r.Queues[:min(len(r.Queues), MostListed)]
}
