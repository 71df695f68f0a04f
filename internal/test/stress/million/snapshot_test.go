//go:build linux

package million

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/file"
)

// stores are those that keep queues. Of a server the long round has one of its own, with the memory that it has by
// default; hold takes a snapshot, and sets what checks at the end that it is still held, and lets go of it.
var stores = []struct {
	name, title string
	address     func(*round) string
	hold        func(*round)
	// lapses: a lease ends by itself while its process lives.
	lapses bool
	// prefetch is the workers'. What a killed one had is worked one by one, and each of these takes three
	// transactions: where each is on disk before the next one begins, a thousand every few seconds are more
	// than can be done.
	prefetch int
}{
	{"redis", "Redis", func(r *round) string {
		if testsize.Long() {
			return testserver.StartRedis(r).URL
		}
		return testserver.Redis(r)
	}, func(*round) {}, true, 1000},
	{"postgres", "PostgreSQL", func(r *round) string {
		if testsize.Long() {
			return testserver.StartPostgres(r, "-c", "shared_buffers=128MB").URL
		}
		return testserver.Postgres(r)
	}, holdPostgres, true, 1000},
	{"mariadb", "MariaDB", func(r *round) string {
		if testsize.Long() {
			return testserver.StartMariaDB(r, "--innodb-buffer-pool-size=128M").URL
		}
		return testserver.MariaDB(r)
	}, holdMariaDB, true, 1000},
	{"directory", "Directory", func(r *round) string { return "file://" + r.TempDir() }, holdDirectory, false, 100},
}

// holdPostgres begins what a dump is: a transaction that sees the database as it is now.
func holdPostgres(r *round) {
	r.Helper()
	c, err := pgx.Connect(r.Context(), r.server)
	if err != nil {
		r.Fatal(err)
	}
	if _, err = c.Exec(r.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		r.Fatal(err)
	}
	if _, err = c.Exec(r.Context(), "SELECT count(*) FROM dibs.namespaces"); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close(context.Background()) })
	r.held = func() {
		var age int
		if err := c.QueryRow(r.Context(), "SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&age); err != nil {
			r.Fatalf("the snapshot was not held to the end: %v", err)
		}
		r.Logf("the snapshot was held to the end, over %d transactions", age)
		_ = c.Close(r.Context())
	}
}

func holdMariaDB(r *round) {
	r.Helper()
	u, err := url.Parse(r.server)
	if err != nil {
		r.Fatal(err)
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Passwd, _ = u.User.Password()
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		r.Fatal(err)
	}
	c, err := db.Conn(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := c.ExecContext(r.Context(), s); err != nil {
			r.Fatal(err)
		}
	}
	r.Cleanup(func() { _, _ = c.Close(), db.Close() })
	r.held = func() {
		var seconds, history int
		if err := c.QueryRowContext(r.Context(), `SELECT TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.innodb_trx
			WHERE trx_mysql_thread_id = CONNECTION_ID()`).Scan(&seconds); err != nil {
			r.Fatalf("the snapshot was not held to the end: %v", err)
		}
		if err := c.QueryRowContext(r.Context(), `SELECT count FROM information_schema.innodb_metrics
			WHERE name = 'trx_rseg_history_len'`).Scan(&history); err != nil {
			r.Log(err)
		}
		r.Logf("the snapshot was held to the end, %d s long; the history that it keeps has %d entries", seconds, history)
		_ = c.Close()
	}
}

// anew is how long a snapshot of the directory is held before it ends and another one begins.
const anew = time.Minute

// holdDirectory reads the directory's database without an end, but for a moment in each minute: for as long as a
// read lasts, SQLite's log grows by all that is written.
func holdDirectory(r *round) {
	r.Helper()
	db, err := file.OpenDB(r.Context(), r.s)
	if err != nil {
		r.Fatal(err)
	}
	begin := func() *sql.Tx {
		tx, err := db.BeginTx(r.Context(), &sql.TxOptions{ReadOnly: true})
		if err == nil {
			var n int
			err = tx.QueryRowContext(r.Context(), "SELECT count(*) FROM sqlite_master").Scan(&n)
		}
		if err != nil {
			r.Errorf("a snapshot of the directory: %v", err)
			return nil
		}
		return tx
	}
	tx := begin()
	var most atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for since := time.Now(); tx != nil; {
			select {
			case <-end:
				_ = tx.Rollback()
				return
			case <-tick.C:
			}
			most.Store(max(most.Load(), logSize(strings.TrimPrefix(r.server, "file://"))))
			if time.Since(since) >= anew {
				_ = tx.Rollback()
				tx, since = begin(), time.Now()
			}
		}
	}()
	r.Cleanup(func() { close(end); <-ended; _ = db.Close() })
	r.held = func() { r.Logf("beside the snapshots the log grew to %d MiB", most.Load()>>20) }
}

// logSize is how large the write-ahead logs below a directory are.
func logSize(dir string) (n int64) {
	logs, _ := filepath.Glob(filepath.Join(dir, "ns", "*", "*-wal")) // the pattern is well formed
	for _, path := range logs {
		if st, err := os.Stat(path); err == nil {
			n += st.Size()
		}
	}
	return n
}
