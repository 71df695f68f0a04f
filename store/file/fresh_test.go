//go:build linux

package file

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestReadingMakesNoDirectory(t *testing.T) {
	parent := t.TempDir()
	storetest.RunUnprepared(t, OpenConfig, "file://"+parent+"/new/dibs", func(t *testing.T) string { return content(t, parent) })

	other := t.TempDir() // somebody's, with nothing of dibs's in it
	storetest.RunUnprepared(t, OpenConfig, "file://"+other, func(t *testing.T) string { return content(t, other) })
}

// content is what a directory has in it.
func content(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestReadingUpgradesNoDatabase(t *testing.T) {
	root := t.TempDir()
	var opened store.Config
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		opened = c
		return knowing(t, 1)(ctx, c)
	}
	database := func(t *testing.T) *sql.DB {
		db, err := sql.Open("sqlite", filepath.Join(root, nsName, opened.Namespace, databaseName))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	age := func(t *testing.T) {
		db := database(t)
		defer db.Close()
		if _, err := db.Exec("DELETE FROM dibs_schema WHERE version = (SELECT max(version) FROM dibs_schema)"); err != nil {
			t.Fatal(err)
		}
	}
	version := func(t *testing.T) (v int) {
		db := database(t)
		defer db.Close()
		if err := db.QueryRow("SELECT max(version) FROM dibs_schema").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	storetest.RunOutdated(t, open, "file://"+root, age, version)
}

func TestANewProgramLosesNoTick(t *testing.T) {
	t.Parallel()
	storetest.RunNewProgram(t, OpenConfig, "file://"+t.TempDir()+"/dibs")
}
