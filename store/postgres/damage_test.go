package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// No row ends a program, whatever somebody wrote into it.
// Holds: promise 28.
func TestDamage(t *testing.T) {
	address := testserver.Postgres(t)
	open(t, config(t, address))
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	rows, err := pool.Query(t.Context(), `SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'dibs'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
		  AND (c.relname = 'tasks' OR EXISTS (SELECT FROM pg_attribute n WHERE n.attrelid = c.oid AND n.attname = 'ns'))
		  AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
		ORDER BY 1, a.attnum`)
	if err != nil {
		t.Fatal(err)
	}
	var harms []storetest.Harm
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		if column == "ns" || kind == "boolean" || kind == "uuid" {
			continue
		}
		tasks, number := table == "tasks", strings.HasSuffix(kind, "int") || kind == "integer"
		harms = append(harms, storetest.Columns(table, column, number, tasks,
			func(ctx context.Context, c store.Config, value any, victim task.ID) (int64, error) {
				if text, ok := value.([]byte); ok && kind == "text" {
					value = string(text)
				}
				where, args := "ns = $2", []any{value, c.Namespace}
				if tasks {
					where, args = "id = $2", []any{value, int64(victim)}
				}
				tag, err := pool.Exec(ctx, fmt.Sprintf("UPDATE dibs.%s SET %s = $1 WHERE %s", table, column, where), args...)
				return tag.RowsAffected(), err
			})...)
	}
	if rows.Err() != nil || len(harms) < 50 {
		t.Fatal(len(harms), rows.Err())
	}
	storetest.RunDamage(t, OpenConfig, address, harms)
	storetest.RunDamagedTask(t, OpenConfig, address, func(ctx context.Context, _ store.Config, victim task.ID) error {
		_, err := pool.Exec(ctx, "UPDATE dibs.tasks SET options = 'x' WHERE id = $1", int64(victim))
		return err
	})
	for _, options := range []string{`{"max_crashes":-3000000000}`, `{"unique":5,"limit":5,"max_crashes":1e400}`, "5", "[]", strings.Repeat("[", 50_000)} {
		t.Run(fmt.Sprintf("options %.20s", options), func(t *testing.T) {
			storetest.RunDamagedTask(t, OpenConfig, address, func(ctx context.Context, _ store.Config, victim task.ID) error {
				_, err := pool.Exec(ctx, "UPDATE dibs.tasks SET options = $1 WHERE id = $2", options, int64(victim))
				return err
			})
		})
	}
}
