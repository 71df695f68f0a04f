package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/dibs-run/dibs/internal/test/upgrade"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// ours are dibs's tables.
func ours(t testing.TB, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'dibs\_%' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// knowing is a program that knows one version more than this tree: it adds a column to all tables, and a table.
func knowing(t testing.TB, oldest int) func(context.Context, store.Config) (*store.Store, error) {
	t.Helper()
	all := fstest.MapFS{}
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		b, err := fs.ReadFile(Migrations(), file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = &fstest.MapFile{Data: b}
		for line := range strings.Lines(string(b)) {
			if name, found := strings.CutPrefix(line, "CREATE TABLE IF NOT EXISTS "); found {
				fmt.Fprintf(&text, "ALTER TABLE %s ADD COLUMN IF NOT EXISTS next VARBINARY(8) NOT NULL DEFAULT 'next';\n", strings.Fields(name)[0])
			}
		}
	}
	n := len(files) + 1
	fmt.Fprintf(&text, "CREATE TABLE IF NOT EXISTS dibs_next (id INT PRIMARY KEY);\n")
	fmt.Fprintf(&text, "INSERT INTO dibs_schema (version, oldest) VALUES (%d, %d) ON DUPLICATE KEY UPDATE version = dibs_schema.version;\n", n, oldest)
	all[fmt.Sprintf("%04d_next.sql", n)] = &fstest.MapFile{Data: []byte(text.String())}
	return func(ctx context.Context, c store.Config) (*store.Store, error) { return openKnowing(ctx, c, all) }
}

// dump writes the tables as statements.
func dump(t *testing.T, db *sql.DB) string {
	var b strings.Builder
	for _, table := range ours(t, db) {
		var name, create string
		if err := db.QueryRowContext(t.Context(), "SHOW CREATE TABLE "+table).Scan(&name, &create); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s;\n", create)
		const where = ` FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND COALESCE(generation_expression, '') = ''`
		names := column(t, db, "SELECT GROUP_CONCAT('`', column_name, '`' ORDER BY ordinal_position SEPARATOR ', ')"+where, table)
		// Hashes are no text.
		values := column(t, db, "SELECT GROUP_CONCAT(IF(data_type = 'binary', CONCAT('COALESCE(CONCAT(''0x'', HEX(`', column_name, '`)), ''NULL'')'), "+
			"CONCAT('QUOTE(`', column_name, '`)')) ORDER BY ordinal_position SEPARATOR ', ')"+where, table)
		rows, err := db.QueryContext(t.Context(), "SELECT CONCAT_WS(', ', "+values+") FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var values string
			if err := rows.Scan(&values); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES (%s);\n", table, names, values)
		}
		_ = rows.Close()
	}
	return b.String()
}

func column(t *testing.T, db *sql.DB, query string, args ...any) (s string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Tables that a release made are upgraded with their data, while servers of the older version go on beside them.
// Holds: H4.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	upgrade.Run(t, upgrade.Subject{
		Open: OpenConfig, Known: len(files), Version: upgrade.Schema,
		Next:  func(oldest int) func(context.Context, store.Config) (*store.Store, error) { return knowing(t, oldest) },
		Empty: func(t *testing.T) store.Config { return config(t, ownDatabase(t)) },
		Dump: func(t *testing.T, c store.Config, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "dump.sql"), []byte(dump(t, raw(t, c.URL.String(), nil))), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		Restore: func(t *testing.T, dir string, c store.Config) {
			b, err := os.ReadFile(filepath.Join(dir, "dump.sql"))
			if err != nil {
				t.Fatal(err)
			}
			exec(t, raw(t, c.URL.String(), nil), string(b))
		},
		HoldUntil: func(t *testing.T, c store.Config, until time.Time) {
			holdUntil(raw(t, c.URL.String(), nil))(t, c, until)
		},
	})
}

// An upgrade waits for transactions that are open, and lets nobody wait behind it for long meanwhile.
// Holds: promise 26, H4.
func TestAnUpgradeStopsNobody(t *testing.T) {
	t.Parallel()
	c := config(t, ownDatabase(t))
	s := mustOpen(t, c)
	ref := grant(t, s, request("k"))
	tx, err := raw(t, c.URL.String(), nil).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT COUNT(*) FROM dibs_leases"); err != nil { // it has the table from now on
		t.Fatal(err)
	}
	upgraded := make(chan error, 1)
	go func() {
		next, err := knowing(t, 1)(context.Background(), c)
		if err == nil {
			_ = next.Close()
		}
		upgraded <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	heartbeats := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			beat, cancel := context.WithTimeout(t.Context(), long)
			r, err := s.Leases.Renew(beat, []lease.RenewRequest{{Ref: ref, TTL: long}})
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
	db := raw(t, c.URL.String(), nil)
	waits := map[int64]float64{}
	brief := func() (n int) {
		for _, ms := range waits {
			if ms < 3000 {
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
			t.Fatalf("an upgrade keeps everybody waiting; its attempts, and for how many milliseconds: %v", waits)
		}
		var attempt int64
		var ms float64
		err := db.QueryRowContext(t.Context(), `SELECT query_id, time_ms FROM information_schema.processlist
			WHERE db = DATABASE() AND state = 'Waiting for table metadata lock' AND info LIKE 'ALTER TABLE%'`).Scan(&attempt, &ms)
		if err == nil {
			waits[attempt] = ms
		} else if !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-heartbeats; err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-upgraded; err != nil {
		t.Error(err)
	}
}

// All that a store promises holds for a program of the version before, once the tables were upgraded.
// Holds: H4.
func TestAnOlderProgramOnNewerTables(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the whole suite once more")
	}
	address := ownDatabase(t)
	s, err := knowing(t, 1)(t.Context(), config(t, address))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	storetest.Run(t, OpenConfig, address)
}
