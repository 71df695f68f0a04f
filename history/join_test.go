package history_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Ticks with their runs, and runs without a tick, are one list: the latest first, each tick's runs in their order.
func TestJoin(t *testing.T) {
	at := time.Date(2026, 3, 1, 4, 15, 0, 0, time.UTC)
	minute := func(n int) time.Time { return at.Add(time.Duration(n) * time.Minute) }
	ticks := []tick.Tick{{Job: "j", At: minute(4)}, {Job: "j", At: minute(2)}}
	runs := []run.Record{ // the latest first, as the contract gives them
		{ID: "after", Job: "j", Started: minute(9)},
		{ID: "alone", Job: "j", Started: minute(3)},
		{ID: "second", Job: "j", Tick: minute(2), Started: minute(8)},
		{ID: "first", Job: "j", Tick: minute(2), Started: minute(2)},
		{ID: "of a tick that is not told", Job: "j", Tick: minute(1), Started: minute(7)},
	}
	join := func(q history.Query) [][]string {
		return history.Join(ticks, runs, q,
			func(t tick.Tick) []string {
				if t.At.IsZero() {
					return nil
				}
				return []string{t.At.Format("15:04")}
			},
			func(e *[]string, r run.Record) { *e = append(*e, r.ID) })
	}
	for name, c := range map[string]struct {
		q    history.Query
		want [][]string
	}{
		"all":         {history.Query{}, [][]string{{"after"}, {"04:19"}, {"alone"}, {"04:17", "first", "second"}}},
		"up to":       {history.Query{To: minute(9)}, [][]string{{"04:19"}, {"alone"}, {"04:17", "first", "second"}}},
		"at most two": {history.Query{Limit: 2}, [][]string{{"after"}, {"04:19"}}},
	} {
		if got := join(c.q); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
