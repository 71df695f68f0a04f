package explain_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// What --at can say, and which tick of a job it then means; "" where that is none.
func TestWhatAtMeans(t *testing.T) {
	for _, c := range []struct{ expr, now, at, want string }{
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T03:15:00Z", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T04:15:00+01:00", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T03:15:00", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T03:15Z", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T03", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-20", "2026-11-20T03:15:00Z"},
		{"15 4 1 * *", "2026-11-21T10:00:00Z", "2026-11", "2026-11-01T03:15:00Z"},
		{"15 4 1 1 *", "2026-11-21T10:00:00Z", "2026", "2026-01-01T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "2026-11-21T03:15:01Z", ""},
		// The time of day in the job's zone: today's, and yesterday's before it has come.
		{"15 4 * * *", "2026-11-21T10:00:00Z", "04:15", "2026-11-21T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T03:14:59Z", "04:15", "2026-11-20T03:15:00Z"},
		{"15 4 * * *", "2026-11-21T10:00:00Z", "04:16", ""},
		{"15 4 * * 1", "2026-11-21T10:00:00Z", "04:15", ""}, // today is no Monday, and it is asked about today
		// The clock jumps over 02:30 on 2026-03-29, to 03:00.
		{"30 2 * * *", "2026-03-29T10:00:00Z", "02:30", "2026-03-29T01:00:00Z"},
		// It shows 02:30 twice on 2026-10-25; the job is due at the first.
		{"30 2 * * *", "2026-10-25T10:00:00Z", "02:30", "2026-10-25T00:30:00Z"},
		{"30 * * * *", "2026-10-25T10:00:00Z", "02:30", "2026-10-25T01:30:00Z"},
		{"30 * * * *", "2026-10-25T01:10:00Z", "02:30", "2026-10-25T00:30:00Z"},
	} {
		now, _ := time.Parse(time.RFC3339, c.now)
		got := asked(t, c.expr, now, c.at)
		if c.want == "" && got.Outcome != explain.NoTick || c.want != "" && (got.Outcome == explain.NoTick || got.Tick.Format(time.RFC3339) != c.want) {
			t.Errorf("%s, --at %s at %s: %s at %s, want %q", c.expr, c.at, c.now, got.Outcome, got.Tick, c.want)
		}
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"", "04:15", "2026", "2026-11-21T04:15:00Z", "2026-11-21T04:15", "24:00", "99999-01-01"} {
		f.Add(s, int64(0))
	}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, s string, now int64) {
		_, _ = explain.ParseWhen(s, time.Unix(now%(1<<40), 0), zone) // no panic, whatever is typed
	})
}

// asked is what is told of a job in Berlin that has been registered for two years.
func asked(t *testing.T, expr string, now time.Time, at string) explain.Account {
	t.Helper()
	st := memory.New(memory.Options{Clock: func() time.Time { return now }}).Store()
	spec := job.Spec{Schedules: []string{expr}, Timezone: "Europe/Berlin"}
	if _, err := st.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "app/j", Definition: spec.Definition(), Since: now.AddDate(-2, 0, 0)}}); err != nil {
		t.Fatal(err)
	}
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	f, err := explain.Gather(t.Context(), &scheduler.Backend{Keeper: k, Ticks: st.Ticks, History: st.History}, "app/j", at)
	if err != nil {
		t.Fatal(err)
	}
	return explain.Decide(f)
}
