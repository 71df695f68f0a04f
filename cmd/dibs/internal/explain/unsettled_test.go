package explain_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// counted bounds what a test walks through.
const counted = 100_000

func define(t rapid.TB, expr, zone string, change func(*tick.Job, *job.Policy)) *explain.Definition {
	t.Helper()
	spec := job.Spec{Schedules: []string{expr}, Timezone: zone}
	known := tick.Job{Name: "app/j", Since: epoch, Mark: epoch.Add(-time.Microsecond)}
	if change != nil {
		change(&known, &spec.Policy)
	}
	known.Definition = spec.Definition()
	d, err := explain.Define(known)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var epoch = time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC)

// History shows before the settling what settling then writes: the same ticks, in rows that no claimed tick
// interrupts.
// Holds: promise 10.
func TestUnsettledIsWhatSettlingWouldWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := define(t, "* * * * *", "UTC", func(j *tick.Job, _ *job.Policy) {
			j.Mark = epoch.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "mark")) * time.Minute)
			if rapid.Bool().Draw(t, "paused") {
				j.Pause.Since = epoch.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "pause")) * time.Minute)
				j.Pause.Until = j.Pause.Since.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "pause lasts")) * time.Minute)
			}
		})
		now := epoch.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "now")) * time.Minute)
		var rows []tick.Tick
		for m := 1; m < 90; m++ {
			at := time.Date(2026, 11, 21, 0, m, 0, 0, time.UTC)
			if !at.After(d.Mark) {
				continue
			}
			switch rapid.IntRange(0, 4).Draw(t, "row") {
			case 0:
				rows = append(rows, tick.Tick{Job: "app/j", At: at, State: tick.Closed, Outcome: run.Succeeded})
			case 1:
				rows = append(rows, tick.Tick{Job: "app/j", At: at, Through: at.Add(2 * time.Minute), Count: 3, State: tick.Closed, Outcome: run.Missed})
				m += 2
			}
		}
		const ttl = 15 * time.Second
		var due []time.Time
		// Half a minute of starting deadline, and a TTL for a claim under way.
		for at, _ := d.Set.Next(d.Mark); at.Add(30 * time.Second).Before(now.Add(-ttl)); at, _ = d.Set.Next(at) {
			due = append(due, at)
		}
		var want []tick.Tick
		for len(due) > 0 { // stretches of one kind
			kind, n := run.Missed, 1
			if d.Pause.Covers(due[0]) {
				kind = run.Paused
			}
			for n < len(due) && d.Pause.Covers(due[n]) == d.Pause.Covers(due[0]) {
				n++
			}
			want, due = append(want, tick.Unclaimed("app/j", due[:n], rows, kind, "")...), due[n:]
		}
		got := d.Unsettled(rows, now, ttl, counted)
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d:\n%+v\n%+v", len(got), len(want), got, want)
		}
		for i, w := range want {
			if g := got[i]; !g.At.Equal(w.At) || !g.Through.Equal(w.Through) || g.Count != w.Count || g.Outcome != w.Outcome || g.State != "" {
				t.Fatalf("row %d: %+v, want %+v", i, g, w)
			}
		}
	})
}

func TestUnsettledCountsNoFurtherThanItsBound(t *testing.T) {
	d := define(t, "@every 1s", "UTC", nil)
	now := epoch.AddDate(1, 0, 0)
	rows := d.Unsettled(nil, now, time.Second, counted)
	if len(rows) != 1 || rows[0].Count != 100_000 || rows[0].Reason != explain.ReasonMany || now.Sub(rows[0].Through) > 10*time.Second {
		t.Errorf("a year of seconds: %+v", rows)
	}
}

func TestARemovedJobHasNothingUnsettled(t *testing.T) {
	d := define(t, "* * * * *", "UTC", func(j *tick.Job, _ *job.Policy) { j.Removed = epoch.Add(time.Hour) })
	if rows := d.Unsettled(nil, epoch.Add(2*time.Hour), time.Second, counted); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}
