//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// A db is the namespace's database. The first caller that needs it opens it. If that fails, the caller gets the
// error, and the next one tries again.
type db struct {
	dir    *dir
	config store.Config
	// migrations are those that this program knows: Migrations, except in tests.
	migrations fs.FS

	path   string
	leases *leases
	log    log
	at     atomic.Pointer[beneath.Dir] // where the database is opened; nil before

	turns turns

	mu     sync.Mutex
	pools  *pools
	closed bool
}

// turns are where steps of this process go on that look at a few of very many: at the worker, the sub-queue and the
// limit of these numbers.
type turns struct{ worker, sub, limit, unused atomic.Int64 }

// pools are one connection that writes, since SQLite has one writer at a time anyway, and a few that read the last
// committed state beside it.
type pools struct {
	writer, reader *sql.DB

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // of the queue, on the writer's one connection
}

func newDB(d *dir, l *leases, c store.Config, migrations fs.FS) *db {
	s := &db{dir: d, config: c, migrations: migrations, leases: l, path: filepath.Join(d.path, databaseName)}
	l.opened.add(s)
	return s
}

func (s *db) close() error {
	s.leases.opened.remove(s)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return fail("close", s.path, s.drop())
}

// drop closes what is open, when nobody uses it any more. The next caller that needs the database opens it anew.
func (s *db) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools == nil {
		return nil
	}
	p := s.pools
	s.pools = nil
	return p.close()
}

func (p *pools) close() error {
	err := p.reader.Close()
	if werr := p.writer.Close(); err == nil {
		err = werr
	}
	return err
}

func (s *db) open(ctx context.Context) (*pools, error) {
	p, err := s.openPools(ctx)
	return p, s.fail("open", err)
}

func (s *db) openPools(ctx context.Context) (*pools, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: %s is closed", lease.ErrUnavailable, s.path)
	}
	if s.pools != nil {
		return s.pools, nil
	}
	if err := s.makeFile(); err != nil {
		return nil, err
	}
	// Busy is answered soon and tried again here, where a context can end the waiting.
	busy := fmt.Sprintf("&_pragma=busy_timeout(%d)", busyTimeout.Milliseconds())
	p := &pools{writer: s.pool(1, "_txlock=immediate"+busy+"&_pragma=journal_mode(wal)&_pragma=synchronous(full)"),
		reader: s.pool(4, "_pragma=busy_timeout(5000)&_pragma=query_only(1)")}
	if err := s.migrate(ctx, p.writer); err != nil {
		_ = p.close()
		return nil, err
	}
	s.pools = p
	return p, nil
}

// makeFile makes an empty file of the right mode; SQLite gives its companions the same mode. The file is never opened
// here: SQLite's locks are of the kind that a process loses when it closes any descriptor of the file.
func (s *db) makeFile() error {
	own, err := s.dir.own()
	if err != nil {
		return err
	}
	if there, err := own.Exists(databaseName); err != nil {
		return err
	} else if !there {
		if _, err = own.Publish(databaseName, nil); err != nil {
			return err
		}
	}
	s.at.Store(own)
	return errors.Join(registerVFS(), checkDatabase(own))
}

// driverName is SQLite's. Tests put one that fails in its place.
var driverName = "sqlite"

func (s *db) pool(n int, params string) *sql.DB {
	// sql.Open fails only for a driver that does not exist.
	p, _ := sql.Open(driverName, s.address(params))
	p.SetMaxOpenConns(n)
	p.SetMaxIdleConns(n)
	return p
}

// address is the database's address, once it was opened. Others may have written the schema, so it must not call
// functions (trusted_schema).
func (s *db) address(params string) string {
	return (&url.URL{Scheme: "file", Path: s.at.Load().At() + "/" + databaseName,
		RawQuery: params + "&_pragma=trusted_schema(0)&vfs=" + vfsName}).String()
}

const (
	// busyFor is how long a writer waits for others.
	busyFor = 5 * time.Second
	// busyTimeout is how long SQLite waits for them at a time.
	busyTimeout = 50 * time.Millisecond
)

// begin starts a writing transaction: it has the database's write lock.
func begin(ctx context.Context, p *sql.DB, until time.Time) (*sql.Tx, error) {
	for {
		tx, err := p.BeginTx(ctx, nil)
		if err == nil || !isBusy(err) || time.Now().After(until) || ctx.Err() != nil {
			return tx, err
		}
	}
}

// write runs f in one transaction. Keep f short: nobody else on the host writes meanwhile, and if the process is
// stopped in the middle, nobody does until it goes on.
func (s *db) write(ctx context.Context, f func(*sql.Tx) error) error {
	p, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err = s.transact(ctx, p.writer, f); err == nil {
		s.shorten(ctx, p.writer)
	}
	return s.fail("write to", err)
}

// maxBatch is how many items share one transaction, and one sync to the disk.
const maxBatch = 500

// writeEach writes items in transactions of maxBatch at most, until one fails.
func writeEach[T any](ctx context.Context, s *db, items []T, do func(*sql.Tx, T) error) error {
	for part := range slices.Chunk(items, maxBatch) {
		err := s.write(ctx, func(tx *sql.Tx) error {
			for _, x := range part {
				if err := do(tx, x); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *db) transact(ctx context.Context, p *sql.DB, f func(*sql.Tx) error) error {
	until := time.Now().Add(busyFor)
	if err := s.leases.turn.take(ctx, until); err != nil {
		return err
	}
	defer s.leases.turn.end()
	tx, err := begin(ctx, p, until)
	if err != nil {
		return err
	}
	if err = f(tx); err != nil {
		_ = tx.Rollback() // f's error says more
	} else {
		err = tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) { // it was rolled back when ctx ended
		err = cmp.Or(ctx.Err(), err)
	}
	return err
}

// migrate brings the schema to the version that this program knows. Programs of older versions go on beside it, unless
// the newest version says that they may not.
func (s *db) migrate(ctx context.Context, p *sql.DB) error {
	steps, err := fs.ReadDir(s.migrations, ".")
	if err != nil {
		return err
	}
	have, err := s.layout(ctx, p)
	if err == nil {
		err = have.Use(len(steps))
	}
	switch {
	case err != nil || have.Version >= len(steps):
		return err
	case have.Version > 0 && s.config.Read:
		return s.config.Outdated(have.Version, len(steps))
	}
	return s.transact(ctx, p, func(tx *sql.Tx) error {
		if have, err = applied(ctx, tx); err == nil {
			err = have.Use(len(steps)) // another program may have upgraded it meanwhile
		}
		if err != nil {
			return err
		}
		for _, step := range steps[min(have.Version, len(steps)):] {
			text, err := fs.ReadFile(s.migrations, step.Name())
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("migration %s: %w", step.Name(), err)
			}
		}
		return nil
	})
}

// layout reads the schema's version. The first statement of a connection also turns a new file into a database, for
// which processes may have to queue.
func (s *db) layout(ctx context.Context, p *sql.DB) (have store.Layout, err error) {
	for end := time.Now().Add(busyFor); ; {
		have, err = applied(ctx, p)
		if err == nil || !isBusy(err) || time.Now().After(end) || ctx.Err() != nil {
			return have, err
		}
	}
}

// applied is which version there is. A table says so: user_version belongs to an application whose tables may be in
// the same file. Before v0.1.0 it had no column oldest.
func applied(ctx context.Context, q querier) (l store.Layout, err error) {
	count := func(row scanner) (n int, err error) { return n, row.Scan(&n) }
	n, _, err := one(ctx, q, count, "SELECT count(*) FROM pragma_table_info('dibs_schema')")
	switch {
	case err != nil || n == 0:
	case n == 1:
		l.Version, _, err = one(ctx, q, count, "SELECT version FROM dibs_schema")
	default:
		l, _, err = one(ctx, q, func(row scanner) (l store.Layout, err error) { return l, row.Scan(&l.Version, &l.Oldest) },
			"SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM dibs_schema")
	}
	return l, err
}

// micros and instantOf carry instants to and from columns.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instantOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// micro is t as it comes back from the database.
func micro(t time.Time) time.Time { return instantOf(micros(t)) }

// A querier is a transaction or a pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type scanner interface{ Scan(dest ...any) error }

// query collects rows.
func query[T any](ctx context.Context, q querier, read func(scanner) (T, error), text string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, read)
}

func collect[T any](rows *sql.Rows, read func(scanner) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := read(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// one returns the only row, if there is one.
func one[T any](ctx context.Context, q querier, read func(scanner) (T, error), text string, args ...any) (v T, ok bool, err error) {
	all, err := query(ctx, q, read, text, args...)
	if err != nil || len(all) == 0 {
		return v, false, err
	}
	return all[0], true, nil
}
