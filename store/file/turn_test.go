//go:build linux

package file

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
)

func TestATurnIsWaitedForSoLong(t *testing.T) {
	turn := make(turn, 1)
	if err := turn.take(t.Context(), time.Now().Add(busyFor)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := turn.take(ctx, time.Now().Add(busyFor)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	if err := turn.take(t.Context(), time.Now().Add(10*time.Millisecond)); !errors.Is(err, errTurn) {
		t.Errorf("without: %v", err)
	}
	turn.end()
	if err := turn.take(t.Context(), time.Now().Add(busyFor)); err != nil {
		t.Errorf("once it is free: %v", err)
	}
}

// However a transaction ends, the next one begins.
func TestEveryEndGivesTheTurnBack(t *testing.T) {
	a := newApplication(t, t.TempDir())
	turn := inside(a.s).leases.turn
	for what, end := range map[string]func(*sql.Tx) error{
		"commit":   (*sql.Tx).Commit,
		"rollback": (*sql.Tx).Rollback,
		"a commit that fails": func(tx *sql.Tx) error {
			_, err := tx.Exec("ROLLBACK") // behind the back of database/sql
			if cerr := tx.Commit(); cerr == nil {
				t.Error("committed what was rolled back")
			}
			return err
		},
	} {
		tx, _ := a.begin()
		if len(turn) != 1 {
			t.Fatalf("%s: the transaction has no turn", what)
		}
		if err := end(tx); err != nil || len(turn) != 0 {
			t.Errorf("%s: %d has the turn, %v", what, len(turn), err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := a.db.BeginTx(ctx, nil); err != nil {
		t.Fatal(err)
	}
	cancel() // database/sql rolls it back, soon
	eventually(t, "the end of a canceled transaction", func() bool { return len(turn) == 0 })

	// Where another process writes, it does not even begin.
	p := play(t, "transact", inside(a.s).dir.root)
	p.line(t)
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.db.BeginTx(ctx, nil); !errors.Is(err, lease.ErrUnavailable) || len(turn) != 0 {
		t.Errorf("beside another process: %v, %d", err, len(turn))
	}
	if _, err := a.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}); err != nil || len(turn) != 0 {
		t.Errorf("a reading one: %v, %d", err, len(turn))
	}
}
