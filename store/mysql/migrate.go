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

	"github.com/dibs-run/dibs/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the files NNNN_name.sql that make the tables, for teams that run migrations themselves (rule H4).
// Each may be run again. After NNNN, record it: CREATE TABLE IF NOT EXISTS dibs_schema (version INT PRIMARY KEY);
// INSERT INTO dibs_schema VALUES (NNNN).
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

func migrations() (all []migration) {
	names, err := fs.Glob(Migrations(), "*.sql")
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

// newestSchema is the version that an opened store's tables have.
func newestSchema() int {
	all := migrations()
	return all[len(all)-1].version
}

// migrate brings the tables to the newest version we know: an empty database at once, an older
// one only for `dibs init`, since servers of the older version may still be at work.
// c.Read brings none.
func (d *database) migrate(ctx context.Context, c store.Config) (did []string, err error) {
	all := migrations()
	newest := newestSchema()
	have, err := d.version(ctx, d.db)
	switch {
	case err != nil:
		return nil, err
	case have > newest:
		return nil, fmt.Errorf("mysql store %s: its tables have version %d and this dibs knows %d at most; upgrade dibs here", d.addr, have, newest)
	case have == newest:
		return nil, nil
	case have == 0 && c.Read:
		return nil, c.NotPrepared()
	case have > 0 && (c.Read || !c.Init):
		return nil, fmt.Errorf("mysql store %s: %w", d.addr, c.Outdated(have, newest))
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, d.explain(err)
	}
	defer conn.Close()
	unlock, err := d.lockSchema(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if have, err = d.version(ctx, conn); err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.version <= have {
			continue
		}
		if err := apply(ctx, conn, m); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.name, d.explain(err))
		}
		did = append(did, "created tables dibs_*: "+m.name)
	}
	return did, nil
}

// version is 0 where there are no tables yet.
func (d *database) version(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (v int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM dibs_schema").Scan(&v)
	if number(err) == 1146 { // no such table
		return 0, nil
	}
	return v, d.explain(err)
}

// apply runs one migration. All its statements may be run again, since DDL commits by itself.
func apply(ctx context.Context, conn *sql.Conn, m migration) error {
	text, err := fs.ReadFile(Migrations(), m.name)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, string(text)); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS dibs_schema (version INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
		INSERT INTO dibs_schema (version) VALUES (`+strconv.Itoa(m.version)+`) ON DUPLICATE KEY UPDATE version = dibs_schema.version`)
	return err
}

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
