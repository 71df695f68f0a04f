//go:build linux

package file

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// No statement of the queue's hot path looks at rows that it does not need: each finds its index.
func TestQueuePlans(t *testing.T) {
	s := inside(openAt(t, t.TempDir()))
	want := map[string]string{"ready": "dibs_tasks_ready", "due": "dibs_tasks_due", "next_due": "dibs_tasks_due", "line_any": "dibs_tasks_line", "line_count": "dibs_tasks_line", "line_last": "dibs_tasks_line",
		"line_next": "dibs_tasks_line", "line_subqueues": "dibs_tasks_line", "displacing": "dibs_tasks_displacing", "displaceable": "dibs_tasks_slots", "rounds": "dibs_limits_round", "subqueues_of": "dibs_subqueues_of", "blocked": "dibs_tasks_line", "slots": "dibs_tasks_slots",
		"limit_get": "dibs_tasks_slots", "limits_from": "dibs_tasks_slots", "limit_declare": "dibs_tasks_slots", "limit_find": "dibs_tasks_slots", "running": "dibs_tasks_running", "running_count": "dibs_tasks_running",
		"expired": "dibs_tasks_expire", "windows": "dibs_tasks_window", "old": "dibs_tasks_ended", "task_by_key": "dibs_tasks_unique", "workers_there": "dibs_workers_there"}
	err := s.write(t.Context(), func(tx *sql.Tx) error {
		for name, index := range want {
			args := make([]any, strings.Count(statements()[name], "?")-strings.Count(statements()[name], "?1"))
			if strings.Contains(statements()[name], "?1") {
				args = []any{nil}
				for strings.Contains(statements()[name], fmt.Sprint("?", len(args)+1)) {
					args = append(args, nil)
				}
			}
			steps, err := query(t.Context(), tx, func(row scanner) (text string, err error) {
				var id, parent, unused int
				return text, row.Scan(&id, &parent, &unused, &text)
			}, "EXPLAIN QUERY PLAN "+statements()[name], args...)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			plan := strings.Join(steps, "; ")
			if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN dibs_tasks") || strings.Contains(plan, "SCAN t ") {
				t.Errorf("%s: %s", name, plan)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nobody is woken while nothing changes.
func TestNobodyIsWokenWithoutAChange(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	if _, err := s.Tasks.Queues(t.Context()); err != nil {
		t.Fatal(err)
	}
	signs, err := s.Queue.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-signs // of what there was
	woken := 0
	for end := time.After(50 * watchEvery); end != nil; {
		select {
		case <-signs:
			woken++
		case <-end:
			end = nil
		}
	}
	if woken > 1 {
		t.Errorf("woken %d times", woken)
	}
	if err := s.History.Append(t.Context(), []history.Event{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	<-signs
}

// Whoever leaves or dies with tasks of more limits than one step changes has none of them afterwards.
// Holds: promise 19.
func TestAWorkerThatIsGoneLeavesNothingOfManyLimits(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{true, false} {
		c := &crowd{TB: t}
		c.open()
		c.worker = c.join("gone")
		var specs []task.Spec
		for i := range mostLimits + mostLimits/2 {
			specs = append(specs, task.Spec{Queue: "q", Kind: "k", Limit: &task.Limit{Key: fmt.Sprint(i)}})
		}
		c.enqueue(specs...)
		if got := len(c.fetch("q", 1000).Tasks) + len(c.fetch("q", 1000).Tasks); got != len(specs) {
			t.Fatalf("%d of %d were given", got, len(specs))
		}
		if leaves {
			c.must(c.s.Queue.Deregister(t.Context(), c.worker))
		} else {
			_, err := c.s.Leases.Release(t.Context(), []lease.Ref{c.worker})
			c.must(err)
			for more := true; more; {
				m, err := c.s.Queue.Maintain(t.Context(), driver.MaintainRequest{})
				c.must(err)
				more = m.More
			}
		}
		left, err := c.s.Tasks.Tasks(t.Context(), driver.Filter{States: []task.State{task.Running}})
		c.must(err)
		if len(left) > 0 {
			t.Errorf("leaves %t: %d of %d still run", leaves, len(left), len(specs))
		}
	}
}
