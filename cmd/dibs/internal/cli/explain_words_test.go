package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Each outcome in words: what is asked at four in the morning must stand there.
func TestExplainInWords(t *testing.T) {
	at := func(clock string) time.Time {
		v, err := time.Parse(time.RFC3339, "2026-11-21T"+clock+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	web1 := &explain.Process{Host: "web-1", PID: 7}
	web := func(n string) fleet.Member {
		return fleet.Member{Process: fleet.Process{Host: "web-" + n}, State: fleet.Up}
	}
	gone := &fleet.Member{Process: fleet.Process{Host: "web-1", PID: 7}, State: fleet.Gone, Heard: at("02:59:00")}
	for _, c := range []struct {
		name    string
		account explain.Account
		head    string
		says    []string
	}{
		{"succeeded", explain.Account{Outcome: "succeeded", Claimant: web1, Claimed: at("04:15:00"), Ended: at("04:16:00"),
			Runs: []run.Record{{ID: "r1", Host: "web-1", PID: 7, Token: 5, Started: at("04:15:00"), Ended: at("04:16:00"), Outcome: run.Succeeded}}},
			"shop/a at 2026-11-21T04:15:00Z: succeeded",
			[]string{"web-1 pid 7 claimed it at 2026-11-21T04:15:00Z", "It ended at 2026-11-21T04:16:00Z: succeeded", "Run r1 on web-1 pid 7, token 5, started 2026-11-21T04:15:00Z, took 1m0s: succeeded"}},
		{"failed after retries", explain.Account{Outcome: "failed", Reason: "exit status 7", Runs: []run.Record{{ID: "r1", Outcome: run.Failed,
			Attempts: []run.Attempt{{N: 1, Outcome: run.TimedOut, Error: "too slow"}, {N: 2, Outcome: run.Failed}}}}},
			"failed", []string{"failed, exit status 7", "Attempt 1 started -, took -: timed_out, too slow", "Attempt 2"}},
		{"skipped", explain.Account{Outcome: "skipped", Reason: run.ReasonOverlap, Ended: at("04:15:01"),
			Blocker: &explain.Blocker{Holder: "web-2 pid 9 run r0", Since: at("04:00:00"), RunID: "r0", Outcome: run.Succeeded, Ended: at("04:20:00")}},
			"skipped", []string{"(overlap): the previous run was still active", "web-2 pid 9 run r0 had the key since 2026-11-21T04:00:00Z; that run ended at 2026-11-21T04:20:00Z: succeeded"}},
		{"skipped, and the holder still runs", explain.Account{Outcome: "skipped", Reason: run.ReasonHolderStuck, Blocker: &explain.Blocker{Holder: "web-2 pid 9 run r0", RunID: "r0", Inferred: true}},
			"skipped", []string{"asked to stop, and did not stop", "no event names the holder", "that run has no outcome yet"}},
		{"missed, unsettled", explain.Account{Outcome: "missed", Unsettled: true, CatchUpUntil: at("23:00:00"),
			Hosts: []explain.Sighting{{Host: "web-1", Before: at("03:59:00")}, {Host: "web-2", After: at("04:15:30")}, {Host: "web-3", Before: at("04:00:00"), After: at("04:16:00")}}},
			"missed (unsettled)", []string{"nobody claimed it", "may still run it", "before 2026-11-21T23:00:00Z", "web-1 last started something in this store at 2026-11-21T03:59:00Z, and nothing",
				"web-2 started something at 2026-11-21T04:15:30Z, while this tick could start: it was up", "web-3 started something at 2026-11-21T04:00:00Z and,"}},
		{"missed, settled, in a row", explain.Account{Outcome: "missed", Inferred: true, Reason: "no server claimed it in time", Count: 3, From: at("03:15:00"), Through: at("05:15:00"),
			Differs: []explain.Remark{{At: at("03:00:00"), Host: "web-1", Reason: "another definition"}}},
			"missed (inferred)", []string{"one of 3 ticks in a row", "no server claimed it in time", "No host started anything", "dibs does not record which servers were up", "web-1 said at 2026-11-21T03:00:00Z: another definition"}},
		{"missed, claimed by somebody who died", explain.Account{Outcome: "missed", Claimant: web1, Reason: "claimed by web-1 pid 7, which stopped or died before it started it"},
			"missed", []string{"It was missed: claimed by web-1 pid 7, which stopped or died"}},
		{"unavailable", explain.Account{Outcome: "unavailable", Reason: "store unavailable, seen by web-1"}, "unavailable", []string{"A server was up, and the store did not answer: store unavailable, seen by web-1"}},
		{"paused", explain.Account{Outcome: "paused", Reason: "paused by ann@laptop at 2026-11-21T04:00:00Z: migration"}, "paused", []string{"the job was paused by ann@laptop at 2026-11-21T04:00:00Z: migration. Ticks of a pause"}},
		{"due in a pause", explain.Account{Outcome: explain.Due, Timezone: "UTC", Pause: &tick.Pause{Since: at("04:16:00"), By: "ann", Why: "migration"}}, "due", []string{"The job is paused by ann at 2026-11-21T04:16:00Z: migration."}},
		{"due, and settled ahead", explain.Account{Outcome: explain.Due, Timezone: "UTC", Ahead: "settled up to tomorrow"}, "due", []string{"The job is settled up to tomorrow."}},
		{"replaced", explain.Account{Outcome: "replaced", Ended: at("04:20:00"), Replaced: &explain.Newcomer{Tick: at("04:20:00"), RunID: "r2", Host: "web-2", At: at("04:20:01")}},
			"replaced", []string{"Run r2, for the tick 2026-11-21T04:20:00Z, asked for that from web-2 at 2026-11-21T04:20:01Z"}},
		{"lost", explain.Account{Outcome: "lost", Reason: "lease lost: broken by ann"}, "lost", []string{"lost the lease and was stopped: lease lost: broken by ann"}},
		{"crashed", explain.Account{Outcome: "crashed", Inferred: true, Reason: "web-1 pid 7 is gone"}, "crashed (inferred)", []string{"ended without a report: web-1 pid 7 is gone", "its own outcome replaces it"}},
		{"canceled", explain.Account{Outcome: "canceled", Reason: "shutdown"}, "canceled", []string{"was stopped: shutdown"}},
		{"to be run again, and not", explain.Account{Outcome: "crashed", Inferred: true, Reruns: 1, Ended: at("04:45:00"), Reason: "web-1 pid 7 is gone; not run again: claimed by web-2 pid 8, which stopped or died before it started it"},
			"crashed (inferred)", []string{"ended without a report: web-1 pid 7 is gone; not run again: claimed by web-2"}},
		{"to be run again by the dead", explain.Account{Outcome: "claimed", Claimant: web1, Reruns: 1, StartBy: at("04:20:00")}, "waiting, and the process that claimed it is gone", []string{"gone, and started nothing", "catch_up_window", "will run again"}},
		{"run again", explain.Account{Outcome: "succeeded", Reruns: 1, Started: at("04:15:30"), Remarks: []explain.Remark{{At: at("04:15:30"), Event: "tick-taken-over", Host: "web-2", Reason: "taken over from web-1"}}},
			"succeeded", []string{"ran again once", "Event tick-taken-over at 2026-11-21T04:15:30Z on web-2: taken over from web-1"}},
		{"claimed", explain.Account{Outcome: "claimed", Alive: true, Claimant: web1, Blocker: &explain.Blocker{Holder: "web-9 pid 1", Since: at("04:00:00")}},
			"waiting, not started yet", []string{"is alive and has started nothing yet", "web-9 pid 1 has the key since 2026-11-21T04:00:00Z."}},
		{"claimed by the dead", explain.Account{Outcome: "claimed", Claimant: web1, StartBy: at("04:20:00")}, "waiting, and the process that claimed it is gone", []string{"gone, and nothing was started", "until 2026-11-21T04:20:00Z"}},
		{"started", explain.Account{Outcome: "started", Alive: true, Started: at("04:15:00")}, "running", []string{"renews its lease: it is running"}},
		{"started by the dead", explain.Account{Outcome: "started", Started: at("04:15:00")}, "started, and its process is gone or cut off", []string{"gone or cut off"}},
		{"due", explain.Account{Outcome: explain.Due, StartBy: at("04:20:00")}, "due, not claimed yet",
			[]string{"no server of shop is on record", "until 2026-11-21T04:20:00Z it can still start"}},
		{"due, with servers", explain.Account{Outcome: explain.Due, StartBy: at("04:20:00"), Serving: fleet.Service{Up: []fleet.Member{web("2"), web("1"), web("1"), web("4"), web("3")}}},
			"due", []string{"A server that is up (web-1, web-2, web-3 and 1 more) claims it soon"}},
		{"due, and its servers are gone", explain.Account{Outcome: explain.Due, StartBy: at("04:20:00"), Serving: fleet.Service{Last: gone}},
			"due", []string{"no server that serves shop has been up since 2026-11-21T02:59:00Z (web-1:7 was the last); until"}},
		{"not due", explain.Account{Outcome: explain.NotDue}, "not due yet", []string{"in the future"}},
		{"no tick", explain.Account{Outcome: explain.NoTick, Previous: at("03:15:00"), Next: at("05:15:00")}, "no tick of this job", []string{"2026-11-21T03:15:00Z before it, 2026-11-21T05:15:00Z after it"}},
		{"no tick before the first", explain.Account{Outcome: explain.NoTick, Since: at("05:00:00")}, "no tick of this job", []string{"took effect at 2026-11-21T05:00:00Z", "nearest ticks: none"}},
		{"forgotten", explain.Account{Outcome: explain.Forgotten}, "no longer on record", []string{"history keeps 90 days"}},
		{"no schedule", explain.Account{Outcome: explain.NoSchedule}, "a key without a schedule", []string{"there are no ticks"}},
		{"caught up on", explain.Account{Outcome: "succeeded", Claimant: web1, Claimed: at("05:00:00"), StartBy: at("04:20:00"), Runs: []run.Record{{ID: "r1"}}},
			"succeeded", []string{"claimed it at 2026-11-21T05:00:00Z", "it was caught up on"}},
		{"back-filled", explain.Account{Outcome: "succeeded", Timezone: "UTC", Schedules: []string{"15 * * * *"}, Since: at("05:00:00"),
			Runs:  []run.Record{{ID: "r1", Started: at("05:00:01"), Cause: &run.Cause{By: "ann", Backfill: "b"}}},
			Again: []run.Record{{ID: "r2", Started: at("06:00:01"), Cause: &run.Cause{By: "bob", Backfill: "c"}}}},
			"succeeded", []string{"a back-fill has run this tick from before", "Run r1 on", "once more, beside the tick", "Run r2 on", "back-filled by bob"}},
		{"of an earlier schedule", explain.Account{Outcome: "succeeded", Timezone: "UTC", Schedules: []string{"15 * * * *"}, Description: "hourly", Since: at("05:00:00"), Removed: at("06:00:00")},
			"succeeded", []string{`Its schedule is ["15 * * * *"] in UTC (hourly).`, "this tick belongs to an earlier one", "removed at 2026-11-21T06:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.account.Job, c.account.Tick = "shop/a", at("04:15:00")
			if head := headline(c.account); !strings.HasPrefix(head, "shop/a") || !strings.Contains(head, c.head) {
				t.Errorf("headline %q, want %q", head, c.head)
			}
			text := strings.Join(words(c.account), "\n")
			for _, s := range c.says {
				if !strings.Contains(text, s) {
					t.Errorf("it does not say %q:\n%s", s, text)
				}
			}
		})
	}
}

// Every outcome has words of its own.
func TestEveryOutcomeIsWorded(t *testing.T) {
	for _, o := range []run.Outcome{run.Succeeded, run.Failed, run.TimedOut, run.Replaced, run.Canceled, run.Lost, run.Crashed, run.Skipped, run.Missed, run.Paused, run.Unavailable} {
		if text := strings.Join(words(explain.Account{Outcome: string(o), Reason: "why"}), "\n"); strings.Contains(text, "gone or cut off") || text == "" {
			t.Errorf("%s: %q", o, text)
		}
	}
}
