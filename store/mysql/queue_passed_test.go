package mysql

import (
	"database/sql"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
)

// What a transaction of a caller's has keeps nobody from ending what has expired behind it, however much that is.
// Holds: promise 26.
func TestWhatExpiresBehindLockedTasksIsEnded(t *testing.T) {
	t.Parallel()
	const had, free = 3 * chunk, 2 * chunk
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	db := raw(t, c.URL.String(), nil)
	ctx := t.Context()
	like(t, db, enqueue(t, s.Queue, spec())[0].ID, had+free-1, nil)
	exec(t, db, "UPDATE dibs_tasks SET expires = 1, lapses = 1 WHERE ns = ?", c.Namespace)
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("SELECT ver FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? ORDER BY id LIMIT ? FOR UPDATE", c.Namespace, had); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Expired != free {
		t.Errorf("expired: %d, %v; %d were free", r.Expired, err, free)
	}
	_ = tx.Rollback()
	if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Expired != had {
		t.Errorf("expired then: %d, %v", r.Expired, err)
	}
}
