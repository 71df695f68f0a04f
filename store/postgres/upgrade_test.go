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
	})
}

// An upgrade waits for transactions that are open, and lets nobody wait behind it meanwhile: no heartbeat is late.
// Holds: promise 26, H4.
func TestAnUpgradeStopsNobody(t *testing.T) {
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
	var longest time.Duration
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		begun := time.Now()
		r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
		if err != nil || r.Answers[0].Status != lease.OK {
			t.Fatalf("a heartbeat: %v, %v", r.Answers, err)
		}
		longest = max(longest, time.Since(begun))
	}
	t.Logf("the longest heartbeat took %s", longest)
	if longest > 2*time.Second {
		t.Errorf("a heartbeat took %s", longest)
	}
	select {
	case err := <-upgraded:
		t.Errorf("the upgrade ended before the transaction: %v", err)
	default:
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
