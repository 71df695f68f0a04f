package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// Another program's long INSERT … SELECT holds the lock of the table's next id for longer than the server lets a
// statement wait for it (error 1467): the store is unavailable, as after any wait that is too long, and says the cure.
func TestANextIdThatIsLockedIsAnOutage(t *testing.T) {
	t.Parallel()
	// A server of its own: on a shared one all other tests would wait as well, and for up to 50 s.
	c := queueConfig(t, testserver.StartMariaDB(t, "--innodb-lock-wait-timeout=1").URL)
	s, db := mustOpen(t, c), raw(t, c.URL.String(), nil)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is over
	var thread int64
	if err := tx.QueryRow("SELECT CONNECTION_ID()").Scan(&thread); err != nil {
		t.Fatal(err)
	}
	inserted := make(chan error, 1)
	go func() {
		_, err := tx.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO dibs_tasks (ns, subqueue, queue, kind, state, ordinal, priority, run_at, enqueued, reason, stop, options, args) "+
			"SELECT 'stranger', 1, 'q', 'k', 0, 0, 0, 0, 0, '', '', '{}', 'null' FROM seq_1_to_60 WHERE SLEEP(?) = 0", (2 * lockWait / 60).Seconds())
		inserted <- err
	}()
	for n := 0; n == 0; { // the view is made anew for whoever has not asked for 100 ms
		time.Sleep(150 * time.Millisecond)
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = ? AND trx_rows_modified > 0", thread).Scan(&n); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-inserted:
			t.Fatalf("the other program's statement ended: %v", err)
		default:
		}
	}
	if _, err := s.Queue.Enqueue(t.Context(), []task.Spec{spec()}); !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "PROCESSLIST") {
		t.Errorf("it says %v", err)
	}
	if err := <-inserted; err != nil {
		t.Error(err)
	}
}
