package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// No row ends a program, whatever somebody wrote into it.
// Holds: promise 28.
func TestDamage(t *testing.T) {
	address := testserver.MariaDB(t)
	mustOpen(t, config(t, address))
	db := raw(t, address, nil)
	r, err := db.Query(`SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name LIKE 'dibs\_%' AND table_name <> 'dibs_schema' AND column_name <> 'ns' AND column_key <> 'PRI'
		ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var harms []storetest.Harm
	for r.Next() {
		var table, column, kind string
		if err := r.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		tasks := table == "dibs_tasks"
		harms = append(harms, storetest.Columns(table, column, strings.HasSuffix(kind, "int"), tasks,
			func(ctx context.Context, c store.Config, value any, victim task.ID) (int64, error) {
				where, args := "ns = ?", []any{value, []byte(c.Namespace)}
				if tasks {
					where, args = "ns = ? AND id = ?", append(args, int64(victim))
				}
				res, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE IGNORE %s SET %s = ? WHERE %s", table, column, where), args...)
				if err != nil {
					return 0, err
				}
				return res.RowsAffected()
			})...)
	}
	storetest.RunDamage(t, OpenConfig, address, harms)
	storetest.RunDamagedTask(t, OpenConfig, address, func(ctx context.Context, _ store.Config, victim task.ID) error {
		_, err := db.ExecContext(ctx, "UPDATE dibs_tasks SET options = 'x' WHERE id = ?", int64(victim))
		return err
	})
	t.Run("done", func(t *testing.T) { // it waits, or runs, and has ended
		storetest.RunDamagedTask(t, OpenConfig, address, func(ctx context.Context, _ store.Config, victim task.ID) error {
			_, err := db.ExecContext(ctx, "UPDATE dibs_tasks SET options = 'x', done = 5, ended = @@timestamp * 1000000 WHERE id = ?", int64(victim))
			return err
		})
	})
}
