package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/observe"
)

func tallied(t *testing.T, events ...observe.Event) string {
	t.Helper()
	c := NewCounters()
	for _, e := range events {
		c.Observe(e)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Each event counts under the name that rules and boards know.
func TestCounters(t *testing.T) {
	at := time.Unix(1, 0)
	page := tallied(t,
		observe.Event{On: observe.Started, Of: observe.Cron, Name: "shop/a", Tick: at, Wait: 300 * time.Millisecond},
		observe.Event{On: observe.Ended, Of: observe.Cron, Name: "shop/a", Tick: at, Outcome: "succeeded", Took: 2 * time.Second},
		observe.Event{On: observe.Ended, Of: observe.Cron, Name: "shop/a", Tick: at, Outcome: "crashed"}, // nobody knows how long
		observe.Event{On: observe.Started, Of: observe.Cron, Name: "shop/a"},
		observe.Event{On: observe.Ended, Of: observe.Cron, Name: "shop/a", Outcome: "failed", Took: time.Second}, // by hand: no tick
		observe.Event{On: observe.Skipped, Of: observe.Cron, Name: "shop/b", Tick: at, Outcome: "missed", Count: 7},
		observe.Event{On: observe.Started, Of: observe.Cron, Name: "shop/b", Tick: at, Wait: time.Hour, Again: true},
		observe.Event{On: observe.Ended, Of: observe.Cron, Name: "shop/b", Tick: at, Outcome: observe.HandedOver},
		observe.Event{On: observe.Started, Of: observe.Task, Name: "mail", Queue: "q", Wait: time.Second},
		observe.Event{On: observe.Ended, Of: observe.Task, Name: "mail", Queue: "q", Outcome: "retried", Took: 50 * time.Millisecond},
		observe.Event{On: observe.Ended, Of: observe.Task, Outcome: "crashed", Count: 2},
		observe.Event{On: observe.Started, Of: observe.Lease, Name: "k", Wait: 10 * time.Minute},
		observe.Event{On: observe.Lost, Of: observe.Lease, Name: "k"},
		observe.Event{On: observe.Ended, Of: observe.Request, Name: "renew", Outcome: "succeeded", Took: 2 * time.Millisecond},
		observe.Event{On: observe.Ended, Of: observe.Request, Name: "renew", Outcome: "failed", Took: 2 * time.Second},
		observe.Event{On: observe.Ended, Of: observe.Request, Name: "read", Outcome: "succeeded"})
	wantLines(t, page,
		"# TYPE dibs_cron_ticks_total counter",
		`dibs_cron_ticks_total{cron="shop/a",outcome="succeeded"} 1`,
		`dibs_cron_ticks_total{cron="shop/a",outcome="crashed"} 1`,
		`dibs_cron_ticks_total{cron="shop/b",outcome="missed"} 7`,
		`dibs_cron_ticks_total{cron="shop/b",outcome="lost"} 0`, // a rate needs the number before the first one
		`dibs_run_duration_seconds_count{cron="shop/b"} 0`,
		`dibs_task_finished_total{queue="q",kind="mail",outcome="failed"} 0`,
		"# TYPE dibs_cron_start_delay_seconds histogram",
		`dibs_cron_start_delay_seconds_bucket{le="0.25"} 0`,
		`dibs_cron_start_delay_seconds_bucket{le="1"} 1`,
		`dibs_cron_start_delay_seconds_bucket{le="+Inf"} 1`,
		`dibs_cron_start_delay_seconds_sum 0.3`,
		`dibs_cron_start_delay_seconds_count 1`,
		`dibs_run_duration_seconds_bucket{cron="shop/a",le="1"} 1`, // a bound belongs to its bucket
		`dibs_run_duration_seconds_bucket{cron="shop/a",le="5"} 2`,
		`dibs_run_duration_seconds_sum{cron="shop/a"} 3`,
		`dibs_task_finished_total{queue="q",kind="mail",outcome="retried"} 1`,
		`dibs_task_finished_total{outcome="crashed"} 2`,
		`dibs_task_wait_seconds_bucket{queue="q",le="1"} 1`,
		`dibs_task_duration_seconds_count{queue="q"} 1`,
		`dibs_lease_acquire_seconds_bucket{le="300"} 0`,
		`dibs_lease_acquire_seconds_bucket{le="3600"} 1`,
		`dibs_lease_lost_total 1`,
		`dibs_store_op_seconds_bucket{op="renew",le="0.005"} 1`,
		`dibs_store_op_seconds_count{op="renew"} 2`,
		`dibs_store_errors_total{op="read"} 0`, // a rate needs the number before the first one
		`dibs_store_errors_total{op="renew"} 1`)
	wantLines(t, page, `dibs_cron_ticks_total{cron="shop/a",outcome="failed"} 0`) // a run by hand is none
	if strings.Contains(page, "handed_over") {
		t.Error("a tick that goes on elsewhere has ended")
	}
	c := NewCounters()
	c.Know([]string{"shop/new"})
	var b strings.Builder
	_ = c.Write(&b)
	wantLines(t, b.String(), `dibs_cron_ticks_total{cron="shop/new",outcome="missed"} 0`, `dibs_run_duration_seconds_count{cron="shop/new"} 0`)
	wantLines(t, tallied(t), `dibs_cron_start_delay_seconds_bucket{le="+Inf"} 0`, "dibs_lease_lost_total 0")
	if err := (*Counters)(nil).Write(nil); err != nil {
		t.Error(err)
	}
}

// However many names there are, the series are bounded, and nothing is lost of the sums.
func TestCountersAreBounded(t *testing.T) {
	const n = 3 * mostNamed
	var all []observe.Event
	for i := range n {
		name := fmt.Sprintf("shop/j%d", i)
		all = append(all, observe.Event{On: observe.Ended, Of: observe.Cron, Name: name, Tick: time.Unix(1, 0), Outcome: "failed", Took: time.Second},
			observe.Event{On: observe.Ended, Of: observe.Task, Name: name, Queue: name, Outcome: "retried", Took: time.Second})
	}
	page := tallied(t, append(all, all...)...)
	rest := 2 * (n - mostNamed)
	wantLines(t, tallied(t, append(all, observe.Event{On: observe.Ended, Of: observe.Cron, Name: "shop/j0", Tick: time.Unix(1, 0), Outcome: "lost"})...),
		`dibs_cron_ticks_total{cron="shop/j0",outcome="lost"} 1`) // who has a name has each outcome
	wantLines(t, page, fmt.Sprintf(`dibs_cron_ticks_total{cron="(others)",outcome="failed"} %d`, rest),
		`dibs_cron_ticks_total{cron="shop/j0",outcome="failed"} 2`,
		fmt.Sprintf(`dibs_task_finished_total{queue="(others)",kind="(others)",outcome="retried"} %d`, rest),
		fmt.Sprintf(`dibs_run_duration_seconds_count{cron="(others)"} %d`, rest))
	if lines := strings.Count(page, "\n"); lines > 30*mostNamed {
		t.Errorf("%d lines", lines)
	}
}
