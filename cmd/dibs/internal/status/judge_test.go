package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

var now = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)

// ago is an instant before now.
func ago(d time.Duration) time.Time { return now.Add(-d) }

// registered is a job that is due on the hour, with a change.
func registered(t *testing.T, name string, change func(*tick.Job)) status.Job {
	t.Helper()
	spec := job.Spec{Schedules: []string{"0 * * * *"}, Timezone: "UTC", Command: &job.Command{Args: []string{"true"}}}
	k := tick.Job{Name: name, Definition: spec.Definition(), Generation: 1, Since: ago(48 * time.Hour), Mark: ago(time.Minute)}
	if change != nil {
		change(&k)
	}
	d, err := explain.Define(k)
	return status.Job{Job: k, Definition: d, Err: err}
}

func member(host, app string, state fleet.State) fleet.Member {
	return fleet.Member{Process: fleet.Process{ID: lease.NewNonce(), Host: host, PID: 7, App: app, Since: ago(5 * time.Hour)}, State: state, Heard: ago(time.Minute)}
}

// healthy is a fleet of two servers, a worker and two jobs, with nothing wrong.
func healthy(t *testing.T) status.Facts {
	return status.Facts{Now: now, TTL: 15 * time.Second, From: ago(status.Day),
		Census: fleet.Census{Now: now, Members: []fleet.Member{member("web-1", "shop", fleet.Up), member("web-2", "shop", fleet.Up), member("web-3", "", fleet.Up)}},
		Jobs:   []status.Job{registered(t, "shop/a", nil), registered(t, "shop/b", nil)},
		Ticks: []tick.Tick{{Job: "shop/a", At: ago(time.Hour), State: tick.Closed, Outcome: run.Succeeded, RunID: "r1"},
			{Job: "shop/b", At: ago(time.Hour), State: tick.Closed, Outcome: run.Skipped}},
		Runs:    []run.Record{{ID: "r1", Job: "shop/a", Tick: ago(time.Hour), Host: "web-1", Outcome: run.Succeeded, Started: ago(time.Hour), Ended: ago(time.Hour)}},
		Queues:  []driver.SubQueue{{Queue: "mail", Kind: "send", Depth: map[task.State]int{task.Available: 3, task.Running: 1}, Oldest: ago(time.Second)}},
		Workers: []driver.Process{{Queues: []string{"mail"}}}}
}

// Each thing that can be wrong is the first line of its report; what is not wrong is no problem at all.
// Holds: promise 25.
func TestTheFirstLineIsTheWorst(t *testing.T) {
	closed := func(job string, before time.Duration, o run.Outcome) tick.Tick {
		return tick.Tick{Job: job, At: ago(before), State: tick.Closed, Outcome: o, Reason: "why\nmore", RunID: "r-" + job}
	}
	all := func(f *status.Facts, state fleet.State) {
		for i := range f.Census.Members {
			f.Census.Members[i].State = state
		}
	}
	off := 30 * time.Second
	for name, c := range map[string]struct {
		change func(*status.Facts)
		state  status.Severity
		line   string // its beginning
		kinds  string // all of them
	}{
		"healthy":        {func(*status.Facts) {}, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing", ""},
		"nothing there":  {func(f *status.Facts) { *f = status.Facts{Now: now} }, status.OK, "0 servers, 0 workers, 0 jobs: nothing is late or failing", ""},
		"all died":       {func(f *status.Facts) { all(f, fleet.Gone) }, status.Critical, "nobody serves shop, with 2 jobs: its last server, web-1:7, was heard of last at 2026-11-21T03:59:00Z; 1 more problem", "app-unserved server-gone"},
		"all ended":      {func(f *status.Facts) { all(f, fleet.Ended) }, status.Warning, "nobody serves shop, with 2 jobs: its last server, web-1:7, ended at", "app-unserved"},
		"one is stopped": {func(f *status.Facts) { f.Census.Members[1].State = fleet.Silent }, status.Warning, "1 server or worker died, or cannot reach the store, or is stopped: web-2:7", "server-gone"},
		"a clock is off": {func(f *status.Facts) { f.Census.Members[1].ClockOffset = &off }, status.Warning, "1 clock is off the store's: web-2:7 by 30s", "fleet-clock"},
		"late":           {func(f *status.Facts) { f.Late = []tick.Spot{{Job: "shop/a", At: ago(time.Minute)}} }, status.Critical, "shop/a has been due since 2026-11-21T03:59:00Z, and no server has claimed it", "late"},
		"the last failed": {func(f *status.Facts) {
			f.Ticks = append([]tick.Tick{closed("shop/a", time.Minute, run.Failed)}, f.Ticks...)
		}, status.Critical, "shop/a failed at 2026-11-21T03:59:00Z: why", "failing"},
		"one failed":       {func(f *status.Facts) { f.Ticks = append(f.Ticks, closed("shop/a", 5*time.Hour, run.Failed)) }, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; shop/a succeeded at 2026-11-21T03:00:00Z; within 24 h: 1 failed", "failed"},
		"skipped since":    {func(f *status.Facts) { f.Ticks = append(f.Ticks, closed("shop/b", 5*time.Hour, run.TimedOut)) }, status.Critical, "shop/b timed out at 2026-11-20T23:00:00Z", "failing"},
		"failed yesterday": {func(f *status.Facts) { f.Latest = []tick.Tick{closed("shop/b", 25*time.Hour, run.Failed)} }, status.OK, "2 servers", ""},
		"failed before what was read": {func(f *status.Facts) {
			f.From, f.Latest = ago(2*time.Hour), []tick.Tick{closed("shop/b", 5*time.Hour, run.Missed)}
		}, status.Critical, "shop/b was missed at 2026-11-20T23:00:00Z", "failing"},
		"missed, not settled": {func(f *status.Facts) {
			f.Unsettled = []tick.Tick{{Job: "shop/b", At: ago(3 * time.Hour), Through: ago(time.Hour), Count: 3, Outcome: run.Missed, Reason: "nobody"}}
		}, status.Critical, "shop/b was missed at 2026-11-21T03:00:00Z: nobody; within 24 h: 3 missed", "failing"},
		"a key failed": {func(f *status.Facts) {
			f.Runs = append(f.Runs, run.Record{ID: "k", Job: "backup", Host: "db-1", Outcome: run.Lost, Started: ago(time.Minute)})
		}, status.Critical, "backup lost its lease at 2026-11-21T03:59:00Z on db-1", "failing"},
		"a key died": {func(f *status.Facts) {
			f.Runs = append(f.Runs, run.Record{ID: "k", Job: "backup", Host: "db-1", Started: ago(time.Minute)})
		}, status.Critical, "backup crashed at 2026-11-21T03:59:00Z on db-1", "failing"},
		"a key runs": {func(f *status.Facts) {
			f.Runs = append(f.Runs, run.Record{ID: "k", Job: "backup", Host: "db-1", Started: ago(time.Minute)})
			f.Held = []lease.Record{{Key: "backup", Holder: lease.Holder{RunID: "k", Host: "db-1"}}}
		}, status.OK, "2 servers", ""},
		"a removed job failed": {func(f *status.Facts) {
			f.Ticks, f.Removed = append(f.Ticks, closed("shop/old", time.Minute, run.Failed)), map[string]time.Time{"shop/old": ago(time.Minute)}
		}, status.OK, "2 servers", ""},
		"nobody works":     {func(f *status.Facts) { f.Workers, f.Queues[0].Oldest = nil, ago(2*time.Minute) }, status.Critical, "tasks of kind send wait in queue mail (3 of them), and no live worker handles them", "queue-unworked"},
		"nobody works yet": {func(f *status.Facts) { f.Workers = nil }, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; tasks of kind send wait in queue mail", "queue-unworked"},
		"scheduled":        {func(f *status.Facts) { f.Workers, f.Queues[0].Oldest = nil, time.Time{} }, status.OK, "2 servers", ""},
		"paused, and unwork": {func(f *status.Facts) {
			f.Workers, f.Pauses = nil, []driver.Pause{{Queue: "mail", Since: ago(time.Hour)}}
		}, status.OK, "2 servers", ""},
		"old":       {func(f *status.Facts) { f.Queues[0].Oldest = ago(2 * time.Hour) }, status.Warning, "the oldest task of kind send in queue mail has waited for 2h0m0s", "queue-waiting"},
		"held back": {func(f *status.Facts) { f.HoldUntil = now.Add(5 * time.Second) }, status.Warning, "the store is new, was restarted or forgot everything: it grants nothing until 2026-11-21T04:00:05Z", "held-back"},
		"store back": {func(f *status.Facts) {
			for i := range f.Census.Members {
				f.Census.Members[i].Regained = ago(10 * time.Minute)
			}
		}, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; the store was away, or forgot everything, until 2026-11-21T03:50:00Z: all 3 servers and workers have new leases", "store-back"},
		"one was cut off": {func(f *status.Facts) { f.Census.Members[0].Regained = ago(10 * time.Minute) }, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; web-1:7 was cut off from the store, or stopped, until", "store-back"},
		"back for long":   {func(f *status.Facts) { f.Census.Members[0].Regained = ago(2 * time.Hour) }, status.OK, "2 servers", ""},
		"maintenance": {func(f *status.Facts) {
			f.Jobs[0] = registered(t, "shop/a", func(j *tick.Job) { j.Pause = tick.Pause{Since: ago(time.Hour), By: "ops"} })
		}, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; 1 job paused: shop/a paused by ops", "job-paused"},
		"unreadable": {func(f *status.Facts) {
			f.Jobs[0] = registered(t, "shop/a", func(j *tick.Job) { j.Definition = "{" })
		}, status.Warning, "the schedule of 1 job cannot be read on this host: shop/a", "unreadable"},
		"cut": {func(f *status.Facts) { f.Cut = []string{"only the first 7 leases"} }, status.OK, "2 servers, 1 worker, 2 jobs: nothing is late or failing; there is too much to look at all of it: this report considers only the first 7 leases", "cut"},
		"everything at once": {func(f *status.Facts) {
			all(f, fleet.Gone)
			f.Workers, f.Queues[0].Oldest = nil, ago(2*time.Minute)
			f.Ticks = append([]tick.Tick{closed("shop/a", time.Minute, run.Failed), closed("shop/b", 2*time.Minute, run.Missed)}, f.Ticks...)
		}, status.Critical, "nobody serves shop, with 2 jobs: its last server, web-1:7, was heard of last at 2026-11-21T03:59:00Z; 4 more problems", "app-unserved queue-unworked failing failing server-gone"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			c.change(&f)
			r := status.Judge(f)
			var kinds []string
			for _, p := range r.Problems {
				kinds = append(kinds, string(p.Kind))
			}
			if r.State != c.state || !strings.HasPrefix(r.Headline(), c.line) || strings.Join(kinds, " ") != c.kinds {
				t.Errorf("%s  %s (%s)", r.State, r.Headline(), strings.Join(kinds, " "))
			}
			if strings.Contains(r.Headline(), "\n") {
				t.Error("the line has two lines")
			}
			if v := r.Whole(); v.State != r.State || len(v.Perf) == 0 {
				t.Errorf("the verdict is %+v", v)
			}
		})
	}
}

// A report lists what runs, what is due within the hour, and the queues.
func TestWhatAReportLists(t *testing.T) {
	f := healthy(t)
	f.Held = []lease.Record{
		{Key: "shop/b", Holder: lease.Holder{Host: "web-2", PID: 8, RunID: "r2"}, Acquired: ago(time.Minute)},
		{Key: lease.OnceKey(), Holder: lease.Holder{Host: "web-1", PID: 7, RunID: "r1", Command: "true"}, Acquired: ago(time.Hour)},
		{Key: "a-lock", Holder: lease.Holder{Host: "web-9"}}}
	f.Jobs = append(f.Jobs, registered(t, "shop/paused", func(j *tick.Job) { j.Pause = tick.Pause{Since: ago(time.Hour)} }),
		registered(t, "shop/resumes", func(j *tick.Job) { j.Pause = tick.Pause{Since: ago(time.Hour), Until: now.Add(time.Minute)} }))
	r := status.Judge(f)
	if n := (status.Numbers{Jobs: 4, Paused: 2, Servers: 2, Workers: 1, Running: 2, Due: 2, Locks: 1, Waiting: 3}); r.Numbers != n {
		t.Errorf("numbers %+v", r.Numbers)
	}
	if len(r.Running) != 2 || r.Running[0] != (status.Run{Job: "shop/a", Host: "web-1", PID: 7, RunID: "r1", Since: ago(time.Hour)}) || r.Running[1].Job != "shop/b" {
		t.Errorf("running %+v", r.Running)
	}
	if len(r.Due) != 2 || r.Due[0] != (status.Due{Job: "shop/a", Tick: now.Add(time.Hour)}) {
		t.Errorf("due %+v", r.Due)
	}
	if want := (status.Queue{Queue: "mail", Waiting: 3, Running: 1, Workers: 1, Oldest: ago(time.Second), Due: ago(time.Second)}); len(r.Queues) != 1 || r.Queues[0] != want {
		t.Errorf("queues %+v", r.Queues)
	}
}

// A report is bounded, and counts what it leaves out.
func TestAReportIsBounded(t *testing.T) {
	f := healthy(t)
	for i := range 3000 {
		f.Late = append(f.Late, tick.Spot{Job: "shop/" + strings.Repeat("x", i%7), At: ago(time.Duration(i) * time.Second)})
	}
	if r := status.Judge(f); len(r.Problems) != status.MostListed || r.Numbers.Critical != 3000 || !slices.Contains(r.Whole().Perf, status.Perf{Name: "late", Value: 3000}) {
		t.Errorf("%d problems of %d: %+v", len(r.Problems), r.Numbers.Critical, r.Whole())
	}
}

func TestCheckJobs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*status.Facts)
		job    string
		maxAge time.Duration
		state  status.Severity
		text   string
	}{
		"it is well":         {nil, "shop/a", 0, status.OK, "shop/a succeeded 1h0m0s ago"},
		"it is young enough": {nil, "shop/a", 2 * time.Hour, status.OK, "shop/a succeeded 1h0m0s ago"},
		"it is too old":      {nil, "shop/a", time.Minute, status.Critical, "shop/a succeeded last 1h0m0s ago, at 2026-11-21T03:00:00Z"},
		"it never succeeded": {nil, "shop/b", 0, status.OK, "shop/b has not succeeded yet"},
		"and should have":    {nil, "shop/b", time.Hour, status.Critical, "shop/b has not succeeded yet"},
		"the last one failed": {func(f *status.Facts) {
			f.Ticks = []tick.Tick{{Job: "shop/a", At: ago(50 * time.Hour), State: tick.Closed, Outcome: run.Failed}}
		}, "shop/a", 0, status.Critical, "shop/a failed at"},
		"others do not matter": {func(f *status.Facts) {
			f.Workers, f.Queues[0].Oldest = nil, ago(time.Hour)
			f.Census.Members[0].State = fleet.Gone
		}, "shop/a", 0, status.OK, "shop/a succeeded 1h0m0s ago"},
		"nobody serves it": {func(f *status.Facts) { f.Census.Members = f.Census.Members[:1]; f.Census.Members[0].State = fleet.Gone }, "shop/a", 0, status.Critical, "nobody serves shop"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			if c.change != nil {
				c.change(&f)
			}
			v, unknown := f.CheckJobs([]string{c.job}, c.maxAge)
			if v.State != c.state || !strings.HasPrefix(v.Text, c.text) || len(unknown) > 0 {
				t.Errorf("%+v, unknown %q", v, unknown)
			}
		})
	}
	f := healthy(t)
	if _, unknown := f.CheckJobs([]string{"shop/a", "nobody"}, 0); len(unknown) != 1 || unknown[0] != "nobody" {
		t.Errorf("unknown %q", unknown)
	}
}

func TestCheckQueue(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*status.Facts)
		most   status.QueueBounds
		state  status.Severity
		text   string
	}{
		"it is well":    {nil, status.QueueBounds{Oldest: time.Minute, Depth: 3}, status.OK, "queue mail: 3 waiting, 1 running, 0 failed, 1 worker"},
		"it is deep":    {nil, status.QueueBounds{Depth: 2}, status.Critical, "3 tasks wait in queue mail, more than 2; queue mail:"},
		"it is old":     {func(f *status.Facts) { f.Queues[0].Oldest = ago(2 * time.Minute) }, status.QueueBounds{Oldest: time.Minute}, status.Critical, "the oldest task of queue mail has waited for 2m0s"},
		"older is fine": {func(f *status.Facts) { f.Queues[0].Oldest = ago(2 * time.Hour) }, status.QueueBounds{Oldest: 3 * time.Hour}, status.OK, "queue mail:"},
		"unworked":      {func(f *status.Facts) { f.Workers, f.Queues[0].Oldest = nil, ago(time.Hour) }, status.QueueBounds{}, status.Critical, "tasks of kind send wait in queue mail"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			if c.change != nil {
				c.change(&f)
			}
			if v, known := f.CheckQueue("mail", c.most); v.State != c.state || !strings.HasPrefix(v.Text, c.text) || !known {
				t.Errorf("%+v", v)
			}
		})
	}
	if _, known := healthy(t).CheckQueue("mial", status.QueueBounds{}); known {
		t.Error("it knows a queue that is not there")
	}
}
