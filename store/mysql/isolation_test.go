package mysql

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// A packet is READ COMMITTED, whatever its session is: at the server's usual level it would lock the gaps beside the
// rows that it looks for, and whoever inserts there would wait for it. The server tells the level of one that waits.
func TestAPacketIsReadCommitted(t *testing.T) {
	address := testserver.MariaDB(t)
	c := config(t, address)
	s := mustOpen(t, c)
	grant(t, s, request("k"))
	db := raw(t, address, nil)
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	if err := holder.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec("SELECT 1 FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? FOR UPDATE", []byte(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Leases.Acquire(ctx, []lease.AcquireRequest{request("k")})
		done <- err
	}()
	// The server writes these tables anew only if nobody has read them for 100 ms.
	const waiters = `SELECT t.trx_isolation_level FROM information_schema.INNODB_LOCK_WAITS w
		JOIN information_schema.INNODB_TRX t ON t.trx_id = w.requesting_trx_id
		JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id WHERE b.trx_mysql_thread_id = ?`
	level := ""
	for level == "" {
		switch err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(x.trx_isolation_level), '') FROM ("+waiters+") x", id).Scan(&level); {
		case err != nil:
			t.Fatal(err)
		case level == "":
			time.Sleep(150 * time.Millisecond)
		}
	}
	if level != "READ COMMITTED" {
		t.Errorf("a packet is %s", level)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
