// Package metrics shows the facts of a fleet as Prometheus reads them: a page, and a server of pages.
//
// The page says what the store knows of the whole fleet, so each process that shows it shows the same. A process that
// works adds what it has done itself (Counters). The series are bounded: what there is no room for is counted in
// dibs_left_out, or under the name "(others)".
package metrics

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/internal/build"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/task"
)

// The bounds of a page: so many jobs have series, so many queues, and so many hosts. Jobs of hosts count as others do.
const (
	mostJobs   = 2_000
	mostQueues = 1_000
	mostHosts  = 1_000
)

// A Reading is what one look at the store said.
type Reading struct {
	Facts status.Facts
	// Took is how long it took.
	Took time.Duration
	// Err is why there are no facts: the store did not answer, or not to all.
	Err error
}

// Write writes a page in Prometheus' text format.
func Write(w io.Writer, r Reading) error {
	p := &page{}
	p.gauge("dibs_build_info", "The version of this dibs; always 1.", "version").set(1, build.Version())
	p.gauge("dibs_store_up", "Whether the store answered to all that was asked, the last time: 1 or 0. If not, this page has nothing that stands in the store.").set(number(r.Err == nil))
	p.gauge("dibs_read_seconds", "How long it took to read what this page shows.").set(r.Took.Seconds())
	if r.Err == nil {
		p.facts(r.Facts)
	}
	return p.write(w)
}

func (p *page) facts(f status.Facts) {
	r := status.Judge(f)
	verdict := map[status.Severity]float64{status.Warning: 1, status.Critical: 2}
	p.gauge("dibs_status", "How the fleet is, as dibs check says it: 0 is OK, 1 a warning, 2 critical.").set(verdict[r.State])
	p.gauge("dibs_facts_timestamp_seconds", "When the facts of this page were read, by the store's clock.").set(seconds(f.Now))
	problems := p.gauge("dibs_problems", "Problems of each kind, as dibs status lists them.", "severity", "kind")
	for _, x := range r.Problems {
		problems.add(1, string(x.Severity), string(x.Kind))
	}
	p.gauge("dibs_locks_held", "Held leases that are no run's.").set(float64(r.Numbers.Locks))
	out := p.gauge("dibs_left_out", "Jobs, queues and hosts that this page has no room for.", "what")
	out.set(float64(p.jobs(f)), "jobs")
	out.set(float64(p.queues(f, r.At)), "queues")
	out.set(float64(p.fleet(f)), "hosts")
}

// fleet shows who is there, and returns how many hosts it leaves out.
func (p *page) fleet(f status.Facts) (left int) {
	servers := p.gauge("dibs_servers", "Servers by state: up, draining, silent (stopped, or it hangs), or gone (it died within the last day, or is cut off).", "state")
	workers := p.gauge("dibs_workers", "Workers by state, like dibs_servers.", "state")
	for _, state := range []string{"up", "draining", "silent", "gone"} {
		servers.set(0, state)
		workers.set(0, state)
	}
	offset := p.gauge("dibs_clock_offset_seconds", "How far the clock of a host is ahead of the store's; negative: behind.", "host")
	hosts := map[string]float64{}
	for _, m := range f.Census.Current() {
		of := workers
		if m.App != "" {
			of = servers
		}
		of.add(1, string(m.State))
		if m.ClockOffset != nil && m.Alive() {
			hosts[m.Host] = m.ClockOffset.Seconds()
		}
	}
	names := slices.Sorted(maps.Keys(hosts))
	for _, name := range names[:min(len(names), mostHosts)] {
		offset.set(hosts[name], name)
	}
	return max(len(names)-mostHosts, 0)
}

// queues shows the queues, and returns how many it leaves out.
func (p *page) queues(f status.Facts, now time.Time) (left int) {
	states := map[string]map[task.State]int{}
	for _, s := range f.Queues {
		if states[s.Queue] == nil {
			states[s.Queue] = map[task.State]int{}
		}
		for state, n := range s.Depth {
			states[s.Queue][state] += n
		}
	}
	tasks := p.gauge("dibs_queue_tasks", "Tasks by state; those that have ended only while they are kept.", "queue", "state")
	oldest := p.gauge("dibs_queue_oldest_age_seconds", "For how long the oldest task has waited that is due and not paused; 0 if none waits.", "queue")
	workers := p.gauge("dibs_queue_workers", "Live workers of the queue.", "queue")
	paused := p.gauge("dibs_queue_paused", "Whether each kind of task of the queue is paused: 1 or 0.", "queue")
	all := f.PerQueue()
	for _, q := range all[:min(len(all), mostQueues)] {
		name := q.Queue
		for _, state := range task.States {
			tasks.set(float64(states[q.Queue][state]), name, string(state))
		}
		age := time.Duration(0)
		if !q.Due.IsZero() {
			age = max(now.Sub(q.Due), 0)
		}
		oldest.set(age.Seconds(), name)
		workers.set(float64(q.Workers), name)
		paused.set(number(q.Paused), name)
	}
	return max(len(all)-mostQueues, 0)
}

// jobs shows the registered jobs and the keys of dibs run, and returns how many it leaves out.
func (p *page) jobs(f status.Facts) (left int) {
	lasts, known := f.Lasts(), map[string]status.Job{}
	for name := range lasts {
		if f.Removed[name].IsZero() {
			known[name] = status.Job{}
		}
	}
	paused, running := 0, map[string]int{}
	for _, x := range f.Running() {
		running[x.Job]++
		known[x.Job] = status.Job{}
	}
	for _, j := range f.Copies {
		known[j.Job.Name] = j
	}
	for _, j := range f.Jobs {
		if known[j.Job.Name] = j; j.Job.Pause.Covers(f.Now) {
			paused++
		}
	}
	count := p.gauge("dibs_crons", "Registered jobs: active, or paused.", "state")
	count.set(float64(len(f.Jobs)-paused), "active")
	count.set(float64(paused), "paused")

	late := map[string]bool{}
	for _, l := range f.Late {
		late[l.Job] = true
	}
	gauge := func(name, help string) *family { return p.gauge("dibs_cron_"+name, help, "cron", "host") }
	success := gauge("last_success_timestamp_seconds", "When the job succeeded last. host is that of a job of scope host.")
	end := gauge("last_run_timestamp_seconds", "When the job ended last, well or badly. A tick that was missed ended when it was due.")
	good := gauge("last_run_success", "Whether the job ended well the last time: 1 or 0.")
	next := gauge("next_fire_timestamp_seconds", "When the job is due next, by its schedule.")
	isPaused := gauge("paused", "Whether the job is paused: 1 or 0.")
	runs := gauge("running", "Runs of the job that hold its lease now.")
	isLate := gauge("late", "Whether a tick is due that no server has claimed: 1 or 0.")
	hosts := hostsOf(f)
	names := slices.Sorted(maps.Keys(known))
	for _, name := range names[:min(len(names), mostJobs)] {
		plain, host := mirror.Split(name)
		of := []string{plain, hosts(host)}
		if l, ok := lasts[name]; ok {
			if !l.Success.IsZero() {
				success.set(seconds(l.Success), of...)
			}
			end.set(seconds(l.End), of...)
			good.set(number(l.Outcome == run.Succeeded), of...)
		}
		if host == "" { // else its lease is in that host's directory
			runs.set(float64(running[name]), of...)
		}
		if j := known[name]; j.Job.Name != "" {
			isPaused.set(number(j.Job.Pause.Covers(f.Now)), of...)
			if host == "" {
				isLate.set(number(late[name]), of...)
			}
			if j.Err == nil {
				if at, ok := j.Definition.Set.Next(f.Now); ok {
					next.set(seconds(at), of...)
				}
			}
		}
	}
	return max(len(names)-mostJobs, 0)
}

// hostsOf names the hosts whose jobs are copied here, by their ids. Where two have one name, the id tells them apart.
// One that is not known any more has its id for a name.
func hostsOf(f status.Facts) func(id string) string {
	count := map[string]int{}
	for _, name := range f.Hosts {
		count[name]++
	}
	return func(id string) string {
		name := f.Hosts[id]
		if count[name] > 1 {
			name += " " + id
		}
		return cmp.Or(name, id)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
