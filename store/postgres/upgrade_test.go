package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/upgrade"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// knowing is a program that knows one version more than this tree: it adds a column to most tables, and a table.
func knowing(t testing.TB, oldest int) func(context.Context, store.Config) (*store.Store, error) {
	t.Helper()
	all := fstest.MapFS{}
	files, err := fs.Glob(Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(Migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = &fstest.MapFile{Data: text}
	}
	sql := ""
	for _, table := range []string{"namespaces", "leases", "jobs", "ticks", "runs", "outputs", "events", "tasks", "tasks_ended", "task_attempts", "queue_names",
		"queue_bands", "queue_limits", "queue_notes", "queue_workers", "queue_pauses", "queue_rates", "queue_counts", "queue_watched"} {
		sql += "ALTER TABLE dibs." + table + " ADD COLUMN next text NOT NULL DEFAULT 'next';\n"
	}
	sql += "CREATE TABLE dibs.next (id int PRIMARY KEY);\n"
	n := len(files) + 1
	sql += fmt.Sprintf("INSERT INTO dibs.migrations (version, oldest) VALUES (%d, %d);\n", n, oldest)
	all[fmt.Sprintf("%04d_next.sql", n)] = &fstest.MapFile{Data: []byte(sql)}
	return func(ctx context.Context, c store.Config) (*store.Store, error) { return openKnowing(ctx, c, all) }
}

// A store that a release made is upgraded with its data, while servers of the older version go on beside it.
// Holds: H4.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	upgrade.Run(t, upgrade.Subject{
		Open: OpenConfig, Known: len(files), Version: upgrade.Schema,
		Next:  func(oldest int) func(context.Context, store.Config) (*store.Store, error) { return knowing(t, oldest) },
		Empty: func(t *testing.T) store.Config { return config(t, database(t, testserver.Postgres(t))) },
		Dump: func(t *testing.T, c store.Config, dir string) {
			cmd := exec.Command("pg_dump", "--inserts", "--no-owner", "--no-privileges", "--dbname="+c.URL.String())
			cmd.Stderr = os.Stderr
			b, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			// Commands of psql, and settings that older servers do not know.
			b = regexp.MustCompile(`(?m)^(\\.*|SET (default_table_access_method|transaction_timeout|idle_in_transaction_session_timeout) .*|--.*)\n`).ReplaceAll(b, nil)
			if err := os.WriteFile(filepath.Join(dir, "dump.sql"), b, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		Restore: func(t *testing.T, dir string, c store.Config) {
			b, err := os.ReadFile(filepath.Join(dir, "dump.sql"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := superuser(t, c.URL.String()).PgConn().Exec(t.Context(), string(b)).ReadAll(); err != nil {
				t.Fatal(err)
			}
		},
		HoldUntil: func(t *testing.T, c store.Config, until time.Time) { holdUntil(c.URL.String())(t, c, until) },
	})
}

// An upgrade waits for transactions that are open, and lets nobody wait behind it meanwhile: no heartbeat is late.
// Holds: promise 26, H4.
func TestAnUpgradeStopsNobody(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	ref := grant(t, s, "k").Ref()
	enqueue(t, s.Queue, spec())
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM dibs.tasks FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	upgraded := make(chan error, 1)
	go func() {
		next, err := knowing(t, 1)(t.Context(), c)
		if err == nil {
			_ = next.Close()
		}
		upgraded <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	heartbeats := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			beat, cancel := context.WithTimeout(t.Context(), lease.DefaultTTL)
			r, err := s.Leases.Renew(beat, []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
			cancel()
			if err != nil || r.Answers[0].Status != lease.OK {
				heartbeats <- fmt.Errorf("a heartbeat: %v, %v", r.Answers, err)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		heartbeats <- nil
	}()
	// The server tells for how long an attempt at the upgrade has waited, and everybody behind it.
	watch := superuser(t, c.URL.String())
	waits := map[time.Time]float64{}
	brief := func() (n int) {
		for _, seconds := range waits {
			if seconds < 2 {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(upgradeWait / 2); brief() < 3; time.Sleep(10 * time.Millisecond) { // the last of them may go on
		select {
		case err := <-upgraded:
			t.Fatalf("the upgrade ended before the transaction: %v", err)
		case err := <-heartbeats:
			t.Fatal(err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("an upgrade keeps everybody waiting; its attempts, and for how many seconds: %v", waits)
		}
		rows, _ := watch.Query(t.Context(), `SELECT query_start, extract(epoch FROM clock_timestamp() - query_start)::float8 FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%'`)
		var begun time.Time
		var seconds float64
		if _, err := pgx.ForEachRow(rows, []any{&begun, &seconds}, func() error { waits[begun] = seconds; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-heartbeats; err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-upgraded; err != nil {
		t.Error(err)
	}
}

// All that a store promises holds for a program of the version before, once the schema was upgraded.
// Holds: H4.
func TestAnOlderProgramOnANewerSchema(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the whole suite once more")
	}
	address := database(t, testserver.Postgres(t))
	s, err := knowing(t, 1)(t.Context(), config(t, address))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	storetest.Run(t, OpenConfig, address)
}
