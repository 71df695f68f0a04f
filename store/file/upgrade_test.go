//go:build linux

package file

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dibs-run/dibs/internal/test/upgrade"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// knowing is a program that knows one version more than this tree: it adds a column to all tables, and a table.
func knowing(t testing.TB, oldest int) func(context.Context, store.Config) (*store.Store, error) {
	t.Helper()
	all := fstest.MapFS{}
	files, err := fs.Glob(Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		b, err := fs.ReadFile(Migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = &fstest.MapFile{Data: b}
		for line := range strings.Lines(string(b)) {
			if name, found := strings.CutPrefix(line, "CREATE TABLE "); found {
				fmt.Fprintf(&text, "ALTER TABLE %s ADD COLUMN next TEXT NOT NULL DEFAULT 'next';\n", strings.Fields(name)[0])
			}
		}
	}
	n := len(files) + 1
	fmt.Fprintf(&text, "CREATE TABLE dibs_next (id INTEGER PRIMARY KEY) STRICT;\nINSERT INTO dibs_schema (version, oldest) VALUES (%d, %d);\n", n, oldest)
	all[fmt.Sprintf("%04d_next.sql", n)] = &fstest.MapFile{Data: []byte(text.String())}
	return func(ctx context.Context, c store.Config) (*store.Store, error) { return openKnowing(ctx, c, all) }
}

// A directory that a release made is upgraded with its data, while programs of the older version go on beside it.
// Holds: H4.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	upgrade.Run(t, upgrade.Subject{
		Open: OpenConfig, Known: len(files), Kernel: true, SelfUpgrading: true,
		Next: func(oldest int) func(context.Context, store.Config) (*store.Store, error) { return knowing(t, oldest) },
		Version: func(t *testing.T, c store.Config, _ *store.Store) (v int) {
			db, err := sql.Open("sqlite", filepath.Join(c.URL.Path, nsName, c.Namespace, databaseName))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.QueryRowContext(t.Context(), "SELECT max(version) FROM dibs_schema").Scan(&v); err != nil {
				t.Fatal(err)
			}
			return v
		},
		Empty: func(t *testing.T) store.Config {
			return store.Config{URL: &url.URL{Scheme: "file", Path: filepath.Join(t.TempDir(), "dibs")}}
		},
		Dump: func(t *testing.T, c store.Config, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "dibs")); err != nil {
				t.Fatal(err)
			}
			copied(t, c.URL.Path, filepath.Join(dir, "dibs"))
		},
		Restore: func(t *testing.T, dir string, c store.Config) { copied(t, filepath.Join(dir, "dibs"), c.URL.Path) },
	})
}

// copied copies a directory, with the modes that dibs gives.
func copied(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// All that a store promises holds for a program of the version before, once the database was upgraded.
// Holds: H4.
func TestAnOlderProgramOnANewerDatabase(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the whole suite once more")
	}
	storetest.Run(t, func(ctx context.Context, c store.Config) (*store.Store, error) {
		var did []string
		if !c.Read {
			s, err := knowing(t, 1)(ctx, c)
			if err != nil {
				return nil, err
			}
			_, _ = s.Tasks.Queues(ctx) // it upgrades the database now
			_ = s.Close()
			did = s.Prepared
		}
		s, err := OpenConfig(ctx, c)
		if err == nil {
			s.Prepared = append(did, s.Prepared...)
		}
		return s, err
	}, "file://"+t.TempDir()+"/dibs")
}
