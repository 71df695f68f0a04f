package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// hourly is a registered job.
func hourly(t *testing.T, name string) status.Job {
	t.Helper()
	spec := job.Spec{Schedules: []string{"0 * * * *"}, Timezone: "UTC", Command: &job.Command{Args: []string{"true"}}}
	k := tick.Job{Name: name, Definition: spec.Definition(), Since: now.Add(-48 * time.Hour), Mark: now.Add(-time.Hour)}
	d, err := explain.Define(k)
	if err != nil {
		t.Fatal(err)
	}
	return status.Job{Job: k, Definition: d}
}

func shown(t *testing.T, r Reading) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			t.Errorf("the page has no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// Each fact has its number, by the names that the rules and boards of users know.
func TestThePageOfAFleet(t *testing.T) {
	off := -1500 * time.Millisecond
	paused := hourly(t, "shop/paused")
	paused.Job.Pause = tick.Pause{Since: now.Add(-time.Hour)}
	f := status.Facts{Now: now, TTL: 15 * time.Second, From: now.Add(-status.Day), Jobs: []status.Job{hourly(t, "shop/good"), hourly(t, "shop/bad"), paused},
		Hosts: map[string]string{"1": "web", "2": "web", "3": "db"}, Removed: map[string]time.Time{"shop/removed": now, mirror.On("old", "1"): now},
		Census: fleet.Census{Now: now, Members: []fleet.Member{
			{Process: fleet.Process{Host: "a", PID: 1, App: "shop", ClockOffset: &off}, State: fleet.Up},
			{Process: fleet.Process{Host: "b", PID: 2, App: "shop"}, State: fleet.Gone, Heard: now},
			{Process: fleet.Process{Host: "b", PID: 3, Queues: []string{"mail"}}, State: fleet.Draining}}},
		Ticks: []tick.Tick{
			{Job: "shop/good", At: now.Add(-time.Hour), Outcome: run.Succeeded, Ended: now.Add(-59 * time.Minute)},
			{Job: "shop/bad", At: now.Add(-time.Hour), Outcome: run.Missed},
			{Job: "shop/removed", At: now.Add(-time.Hour), Outcome: run.Failed, Ended: now}},
		Latest: []tick.Tick{{Job: "shop/bad", At: now.Add(-72 * time.Hour), Outcome: run.Succeeded, Ended: now.Add(-71 * time.Hour)}},
		Runs: []run.Record{{ID: "r", Job: "backup", Outcome: run.Succeeded, Started: now.Add(-time.Hour), Ended: now.Add(-30 * time.Minute)},
			{ID: "x", Job: mirror.On("own", "1"), Outcome: run.Failed, Started: now, Ended: now},
			{ID: "y", Job: mirror.On("own", "2"), Outcome: run.Succeeded, Started: now, Ended: now},
			{ID: "o", Job: mirror.On("old", "1"), Outcome: run.Failed, Started: now, Ended: now},
			{ID: "g", Job: mirror.On("own", "4"), Outcome: run.Succeeded, Started: now, Ended: now},
			{ID: "z", Job: mirror.On("own", "3"), Outcome: run.Succeeded, Started: now, Ended: now}},
		Held:   []lease.Record{{Key: "shop/good", Holder: lease.Holder{RunID: "q"}}, {Key: "lock"}, {Key: "hangs", Holder: lease.Holder{RunID: "h"}}},
		Copies: []status.Job{{Job: tick.Job{Name: mirror.On("idle", "3"), Pause: tick.Pause{Since: now.Add(-time.Hour)}}, Err: errors.New("unreadable")}},
		Late:   []tick.Spot{{Job: "shop/good", At: now}},
		Pauses: []driver.Pause{{Queue: "mail", Kind: "paused", Since: now.Add(-time.Hour)}},
		Queues: []driver.SubQueue{{Queue: "mail", Kind: "paused", Depth: map[task.State]int{task.Available: 1}, Oldest: now.Add(-time.Hour)},
			{Queue: "mail", Kind: "a", Depth: map[task.State]int{task.Available: 2}, Oldest: now.Add(-90 * time.Second)},
			{Queue: "mail", Kind: "b", Depth: map[task.State]int{task.Available: 1, task.Failed: 4}}},
		Workers: []driver.Process{{Queues: []string{"mail"}}},
	}
	page := shown(t, Reading{Facts: f, Took: 250 * time.Millisecond})
	wantLines(t, page,
		"dibs_store_up 1", "dibs_read_seconds 0.25", "dibs_status 2", "dibs_facts_timestamp_seconds 1795780800",
		`dibs_problems{severity="critical",kind="late"} 1`, `dibs_problems{severity="critical",kind="failing"} 2`,
		`dibs_crons{state="active"} 2`, `dibs_crons{state="paused"} 1`, "dibs_locks_held 1",
		`dibs_cron_last_success_timestamp_seconds{cron="shop/good"} 1795777260`,
		`dibs_cron_last_success_timestamp_seconds{cron="shop/bad"} 1795525200`,
		`dibs_cron_last_success_timestamp_seconds{cron="backup"} 1795779000`,
		`dibs_cron_last_run_timestamp_seconds{cron="shop/bad"} 1795777200`,
		`dibs_cron_last_run_success{cron="shop/good"} 1`, `dibs_cron_last_run_success{cron="shop/bad"} 0`,
		`dibs_cron_last_run_success{cron="own",host="web 1"} 0`, `dibs_cron_last_run_success{cron="own",host="web 2"} 1`,
		`dibs_cron_last_run_success{cron="own",host="db"} 1`, `dibs_cron_last_run_success{cron="own",host="4"} 1`,
		`dibs_cron_running{cron="hangs"} 1`, `dibs_cron_paused{cron="idle",host="db"} 1`,
		`dibs_cron_next_fire_timestamp_seconds{cron="shop/good"} 1795784400`,
		`dibs_cron_paused{cron="shop/paused"} 1`, `dibs_cron_paused{cron="shop/good"} 0`,
		`dibs_cron_running{cron="shop/good"} 1`, `dibs_cron_running{cron="backup"} 0`,
		`dibs_cron_late{cron="shop/good"} 1`, `dibs_cron_late{cron="shop/bad"} 0`,
		`dibs_queue_tasks{queue="mail",state="available"} 4`, `dibs_queue_tasks{queue="mail",state="failed"} 4`,
		`dibs_queue_oldest_age_seconds{queue="mail"} 90`, `dibs_queue_workers{queue="mail"} 1`, `dibs_queue_paused{queue="mail"} 0`,
		`dibs_servers{state="up"} 1`, `dibs_servers{state="gone"} 1`, `dibs_servers{state="silent"} 0`,
		`dibs_workers{state="draining"} 1`, `dibs_workers{state="up"} 0`,
		`dibs_clock_offset_seconds{host="a"} -1.5`,
		`dibs_left_out{what="jobs"} 0`)
	for _, none := range []string{"shop/removed", `cron="old"`, `dibs_cron_paused{cron="backup"}`, `dibs_cron_last_success_timestamp_seconds{cron="shop/paused"}`, `dibs_cron_running{cron="own"`} {
		if strings.Contains(page, none) {
			t.Errorf("the page has %s", none)
		}
	}
}

// A store that does not answer is a number, and nothing is said of what it would have told.
func TestThePageOfASilentStore(t *testing.T) {
	page := shown(t, Reading{Err: errors.New("gone"), Facts: status.Facts{Now: now}})
	wantLines(t, page, "dibs_store_up 0")
	if strings.Contains(page, "dibs_status") || strings.Contains(page, "gone") {
		t.Error(page)
	}
}

// A name may be anything, and so many: each line stays one, and the page has an end.
func TestHostileNames(t *testing.T) {
	f := status.Facts{Now: now, From: now.Add(-status.Day)}
	for i := range 3 * mostQueues {
		f.Queues = append(f.Queues, driver.SubQueue{Queue: fmt.Sprintf("q%05d", i), Kind: "k"})
		f.Runs = append(f.Runs, run.Record{Job: fmt.Sprintf("j%05d", i), Outcome: run.Succeeded, Started: now, Ended: now})
	}
	f.Runs = append(f.Runs, run.Record{Job: "a\"b\\c\nd\xff", Outcome: run.Succeeded, Started: now, Ended: now})
	page := shown(t, Reading{Facts: f})
	wantLines(t, page, `dibs_cron_last_run_success{cron="a\"b\\c\nd�"} 1`, `dibs_left_out{what="queues"} 2000`, `dibs_left_out{what="jobs"} 1001`)
	if n := strings.Count(page, "\n"); n > 30_000 {
		t.Errorf("%d lines", n)
	}
}
