//go:build linux

package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// No row ends a program, whatever somebody wrote into it.
// Holds: promise 28.
func TestDamage(t *testing.T) {
	root := t.TempDir()
	at := func(namespace string) *sql.DB {
		db, err := sql.Open("sqlite", filepath.Join(root, nsName, namespace, databaseName)+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	c := configAt(root, true)
	c.Namespace = "sample"
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tasks.Queues(t.Context()); err != nil { // which makes the database
		t.Fatal(err)
	}
	db := at("sample")
	rows, err := db.Query(`SELECT m.name, p.name, p.type FROM sqlite_schema m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' AND p.pk = 0
		AND m.name NOT LIKE 'sqlite%'`)
	if err != nil {
		t.Fatal(err)
	}
	var harms []storetest.Harm
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		tasks := table == "dibs_tasks"
		exec := func(ctx context.Context, c store.Config, value any, victim task.ID) (int64, error) {
			db := at(c.Namespace)
			defer db.Close()
			text := fmt.Sprintf("UPDATE %s SET %s = ?", table, column)
			args := []any{value}
			if tasks {
				text, args = text+" WHERE id = ?", append(args, int64(victim))
			}
			res, err := db.ExecContext(ctx, text, args...)
			if err != nil {
				return 0, err
			}
			return res.RowsAffected()
		}
		// SQLite keeps any kind of value in any column.
		harms = append(harms, storetest.Columns(table, column, true, tasks, exec)...)
		harms = append(harms, storetest.Columns(table, column, false, tasks, exec)...)
	}
	if err := errors.Join(rows.Err(), rows.Close(), db.Close(), s.Close()); err != nil || len(harms) < 50 {
		t.Fatal(len(harms), err)
	}
	storetest.RunDamage(t, OpenConfig, "file://"+root, harms)
	storetest.RunDamagedTask(t, OpenConfig, "file://"+root, func(ctx context.Context, c store.Config, victim task.ID) error {
		db := at(c.Namespace)
		defer db.Close()
		_, err := db.ExecContext(ctx, "UPDATE dibs_tasks SET options = x'78' WHERE id = ?", int64(victim))
		return err
	})
}
