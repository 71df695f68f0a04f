package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the files NNNN_name.sql that make the tables, for teams that run migrations themselves (rule H4).
// Each may be run again. Each records its version, and the oldest version whose programs may still use the tables
// after it (store.Layout).
func Migrations() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // it is embedded
	}
	return sub
}

type migration struct {
	version int
	name    string
}

func (d *database) versions() (all []migration) {
	names, err := fs.Glob(d.migrations, "*.sql")
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	for _, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		v, err := strconv.Atoi(digits)
		if err != nil {
			panic(err)
		}
		all = append(all, migration{v, name})
	}
	return all
}

// migrate brings the tables to the newest version we know, and returns the version that they have then: an empty
// database at once, an older one only for `dibs init`. Servers of the older version may be at work meanwhile. c.Read
// brings none.
func (d *database) migrate(ctx context.Context, c store.Config) (version int, did []string, err error) {
	all := d.versions()
	newest := all[len(all)-1].version
	layout, err := d.layout(ctx, d.db)
	if err != nil {
		return 0, nil, err
	}
	if err := layout.Use(newest); err != nil {
		return 0, nil, fmt.Errorf("mysql store %s: %w", d.addr, err)
	}
	switch have := layout.Version; {
	case have >= newest:
		return have, nil, nil
	case have == 0 && c.Read:
		return 0, nil, c.NotPrepared()
	case have > 0 && (c.Read || !c.Init):
		return 0, nil, fmt.Errorf("mysql store %s: %w", d.addr, c.Outdated(have, newest))
	}
	if layout.Version > 0 && c.Expect != "" { // else another store than was meant would be upgraded
		var m meta
		if err := d.run(ctx, new(packet).add("read-meta", d.ns), m.read); err != nil {
			return 0, nil, err
		}
		if err := d.expected(c, m); err != nil {
			return 0, nil, err
		}
	}
	return d.upgrade(ctx, all)
}

// upgrade applies what is missing of some migrations, and returns the version that the tables have then.
func (d *database) upgrade(ctx context.Context, all []migration) (version int, did []string, err error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return 0, nil, d.explain(err)
	}
	defer conn.Close()
	unlock, err := d.lockSchema(ctx, conn)
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	have, err := d.layout(ctx, conn)
	if err != nil {
		return 0, nil, err
	}
	if err := have.Use(all[len(all)-1].version); err != nil { // another program may have upgraded it meanwhile
		return 0, nil, fmt.Errorf("mysql store %s: %w", d.addr, err)
	}
	version = have.Version
	for _, m := range all {
		if m.version <= have.Version {
			continue
		}
		if err := d.apply(ctx, conn, m, have.Version > 0); err != nil {
			return 0, nil, fmt.Errorf("migration %s: %w", m.name, d.explain(err))
		}
		what := "created tables dibs_*: "
		if have.Version > 0 {
			what = fmt.Sprintf("upgraded tables dibs_* from version %d to %d: ", m.version-1, m.version)
		}
		did, version = append(did, what+m.name), m.version
	}
	return version, did, nil
}

// layout is zero where there are no tables yet. Before v0.1.0 there was no column oldest.
func (d *database) layout(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (l store.Layout, err error) {
	err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0), COALESCE(MAX(oldest), 0) FROM dibs_schema").Scan(&l.Version, &l.Oldest)
	switch number(err) {
	case 1146: // no such table
		return store.Layout{}, nil
	case 1054: // no such column
		err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM dibs_schema").Scan(&l.Version)
	}
	return l, d.explain(err)
}

// apply runs one migration. All its statements may be run again, since DDL commits by itself.
//
// A statement that changes a table waits for the transactions that use it, and everybody who comes later waits behind
// the statement. So among working servers it waits for a second at most, which a heartbeat can bear, and lets them go
// on before it tries again.
func (d *database) apply(ctx context.Context, conn *sql.Conn, m migration, amongServers bool) error {
	text, err := fs.ReadFile(d.migrations, m.name)
	if err != nil || !amongServers {
		if err == nil {
			_, err = conn.ExecContext(ctx, string(text))
		}
		return err
	}
	if _, err := conn.ExecContext(ctx, "SET @dibs_wait = @@lock_wait_timeout; SET SESSION lock_wait_timeout = 1"); err != nil {
		return err
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SET SESSION lock_wait_timeout = @dibs_wait")
	}()
	for end := time.Now().Add(upgradeWait); ; {
		_, err := conn.ExecContext(ctx, string(text))
		if n := number(err); n != 1205 && n != 1213 || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(upgradePause):
		}
	}
}

// upgradeWait is how long an upgrade tries to get at a table that is in use, and upgradePause how long it lets the
// servers go on between two attempts.
const upgradeWait, upgradePause = time.Minute, 300 * time.Millisecond

// lockSchema keeps two processes from migrating at once. DDL commits by itself, so no transaction
// could; the lock's name is the server's, so it names the database.
func (d *database) lockSchema(ctx context.Context, conn *sql.Conn) (unlock func(), err error) {
	var db string
	var got sql.NullInt64
	if err = conn.QueryRowContext(ctx, "SELECT COALESCE(DATABASE(), '')").Scan(&db); err != nil {
		return nil, d.explain(err)
	}
	if db == "" {
		return nil, fmt.Errorf("mysql store %s: the address names no database; add it: mysql://host/database", d.addr)
	}
	name := fmt.Sprintf("dibs-schema:%x", sha256.Sum224([]byte(db)))[:60]
	if err = conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+name+"', 60)").Scan(&got); err != nil {
		return nil, d.explain(err)
	}
	if got.Int64 != 1 {
		return nil, d.explain(errors.New("another process has been preparing the tables for a minute; see SHOW PROCESSLIST"))
	}
	return func() {
		// Even when ctx has ended: the connection goes back to the pool and would keep the lock.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK('"+name+"')")
	}, nil
}
