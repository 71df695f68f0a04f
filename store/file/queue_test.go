//go:build linux

package file

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// No statement of the queue's hot path looks at rows that it does not need: each finds its index.
func TestQueuePlans(t *testing.T) {
	s := inside(openAt(t, t.TempDir()))
	want := map[string]string{"ready": "tasks_ready", "due": "tasks_due", "next_due": "tasks_due", "line_count": "tasks_line", "line_last": "tasks_line",
		"line_next": "tasks_line", "line_lanes": "tasks_line", "rivals": "tasks_line", "blocked": "tasks_line", "slots": "tasks_slots",
		"limit_get": "tasks_slots", "limit_declare": "tasks_slots", "limit_find": "tasks_slots", "running": "tasks_running", "running_count": "tasks_running",
		"expired": "tasks_expire", "windows": "tasks_window", "old": "tasks_ended", "task_by_key": "tasks_unique", "workers_there": "workers_there"}
	err := s.write(t.Context(), func(tx *sql.Tx) error {
		for name, index := range want {
			args := make([]any, strings.Count(statement[name], "?")-strings.Count(statement[name], "?1"))
			if strings.Contains(statement[name], "?1") {
				args = []any{nil}
			}
			steps, err := query(t.Context(), tx, func(row scanner) (text string, err error) {
				var id, parent, unused int
				return text, row.Scan(&id, &parent, &unused, &text)
			}, "EXPLAIN QUERY PLAN "+statement[name], args...)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			plan := strings.Join(steps, "; ")
			if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN tasks") || strings.Contains(plan, "SCAN t ") {
				t.Errorf("%s: %s", name, plan)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
