//go:build linux

package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// wipe deletes all that dibs has in a store. Redis is prepared by whoever uses it next; elsewhere somebody runs init.
func (w *world) wipe(server *testserver.Server) {
	w.t.Helper()
	ctx := w.t.Context()
	var err error
	switch w.name {
	case "redis":
		var o *redis.Options
		if o, err = redis.ParseURL(server.URL); err == nil {
			client := redis.NewClient(o)
			defer client.Close()
			err = client.FlushAll(ctx).Err()
		}
	case "postgres":
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, server.URL); err == nil {
			defer conn.Close(context.WithoutCancel(ctx))
			for again := true; again; { // it locks what the servers lock too, in another order: PostgreSQL ends one of the two
				_, err = conn.Exec(ctx, "DROP SCHEMA dibs CASCADE")
				var refused *pgconn.PgError
				again = errors.As(err, &refused) && refused.Code == "40P01"
			}
		}
	case "mariadb":
		err = dropTables(ctx, server.URL)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if w.name != "redis" {
		w.must("init")
	}
}

func dropTables(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path))
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'dibs%'")
	if err != nil {
		return err
	}
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		return fmt.Errorf("tables %v: %w", names, err)
	}
	_, err = db.ExecContext(ctx, "DROP TABLE "+strings.Join(names, ", "))
	return err
}

// A store that loses everything is at work again by itself within one hold-back and a minute: jobs that tick often and
// those that do not are registered, ticks run, the hosts' own jobs are told, and workers have their rates again.
// Holds: T11.
func TestAllIsThereAgainAfterATotalLoss(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		m := w.jobs(
			job{"often", "@every 2s", `{}`, w.work("often", work{})},
			job{"rare", "0 0 1 1 *", `{}`, []string{"true"}},
			job{"own", "@every 2s", `{"concurrency_scope": "host"}`, []string{"true"}})
		server1, server2 := w.serve(m), w.serve(m)
		worker := w.dibs("work", "mail", "--", "true")
		w.hears(patience, 2, "start", "often")
		w.must("task", "enqueue", "mail", "--queue", "mail", "--args", "{}")

		w.wipe(server)
		lost := time.Now()
		before := len(which(heard(t, w.dir), "start", "often"))
		var jobs []struct{ Job, State string }
		eventually(t, usualTTL+time.Minute+patience, func() bool {
			p := w.dibs("job", "list", "-o", "json")
			return p.wait(patience) == 0 && json.Unmarshal([]byte(p.stdout()), &jobs) == nil && strings.Contains(p.stdout(), `"app/rare"`) &&
				strings.Contains(p.stdout(), `"app/often"`) && len(which(heard(t, w.dir), "start", "often")) > before+1
		}, func() string { return fmt.Sprintf("the jobs are there again: %+v", jobs) })
		t.Logf("at work again after %s", time.Since(lost))
		third := w.in(t, "DIBS_DIR="+w.path("third"))
		eventually(t, patience, func() bool { return len(third.told("app/own")) > 0 }, func() string { return "its host's own runs are told" })
		if said := server1.stderr() + server2.stderr(); !strings.Contains(said, "event=definition-restored") {
			t.Errorf("no line says that a definition was restored: %s", said)
		}
		w.must("task", "enqueue", "mail", "--queue", "mail", "--args", "{}")
		eventually(t, patience, func() bool { return strings.Contains(w.must("task", "list", "--state", "succeeded"), "mail") },
			func() string { return "a task ran: " + w.must("task", "list") })
		w.members("all are on record again", func(by map[int]member) bool { return len(by) == 3 })
		w.noOverlap()
		stop(server1, server2, worker)
	})
}
