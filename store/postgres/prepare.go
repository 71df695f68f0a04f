package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// server is what a server tells about itself.
type server struct {
	standby   bool
	readOnly  bool // its transactions are, on our connection
	version   int
	encoding  string
	isolation string
	fsync     bool
	database  string
	prepared  bool     // there is a schema
	schema    int      // its version, once it is prepared
	lacking   []string // the role's rights, in the words of GRANT
}

// namespace is the record of a namespace.
type namespace struct {
	installation, identity string
	holdUntil, now         time.Time
	maxTTL                 time.Duration
}

// preparation makes or upgrades schema and namespace.
type preparation struct {
	db     *db
	pool   *pgxpool.Pool
	c      store.Config
	maxTTL *atomic.Int64 // leases's
	lines  []string      // what was done
	// migrations are the versions that this program knows: Migrations, except in tests.
	migrations fs.FS
}

// server reads what the server is, and refuses one that does not fit.
func (p *preparation) server(ctx context.Context) (s server, err error) {
	known, err := p.tables()
	if err != nil {
		return s, err
	}
	err = p.db.run(ctx, "open", do(sqlPrepare()[0]).each(func(rows pgx.Rows) error {
		return rows.Scan(&s.standby, &s.readOnly, &s.version, &s.encoding, &s.isolation, &s.fsync, &s.database)
	}), do(sqlPrepare()[1]).each(func(rows pgx.Rows) error { return rows.Scan(&s.prepared) }),
		do(sqlPrepare()[10], known).each(func(rows pgx.Rows) error {
			s.lacking = append(s.lacking, "")
			return rows.Scan(&s.lacking[len(s.lacking)-1])
		}))
	switch {
	case err != nil:
	case s.standby:
		err = p.db.fail("open", errStandby)
	case s.readOnly && !p.c.Read:
		err = p.db.fail("open", errReadOnly)
	case s.version < 130000:
		err = fmt.Errorf("postgres store %s: the server is version %d; 13 or newer is needed", p.db.address, s.version/10000)
	case s.encoding != "UTF8":
		err = fmt.Errorf("postgres store %s: database %s is encoded in %s; create one with ENCODING 'UTF8'", p.db.address, s.database, s.encoding)
	case s.prepared && len(s.lacking) > 0 && !p.c.Read: // work could begin whose outcome cannot be recorded
		err = fmt.Errorf("postgres store %s: the role lacks rights (%s); grant it those of docs/reference/stores.md, or run `dibs init` as the owner of the schema dibs",
			p.db.address, strings.Join(s.lacking, "; "))
	case s.isolation != "read committed":
		err = fmt.Errorf("postgres store %s: the connections' default_transaction_isolation is %q; set it to 'read committed' on the pool", p.db.address, s.isolation)
	}
	return s, err
}

// schema makes sure that the schema has the version that this program knows. Only `dibs init` upgrades an older one,
// since servers of the older version may be at work.
func (p *preparation) schema(ctx context.Context, s *server) error {
	files, err := fs.Glob(p.migrations, "*.sql")
	if err != nil {
		return err
	}
	var have store.Layout
	if s.prepared {
		if have, err = p.layout(ctx); err != nil {
			return err
		}
	}
	if err := have.Use(len(files)); err != nil {
		return fmt.Errorf("postgres store %s: database %s: %w", p.db.address, s.database, err)
	}
	switch s.schema = have.Version; {
	case have.Version >= len(files):
		return nil
	case have.Version == 0 && p.c.Read:
		return p.c.NotPrepared()
	case have.Version > 0 && (p.c.Read || !p.c.Init):
		return fmt.Errorf("postgres store %s: database %s: %w", p.db.address, s.database, p.c.Outdated(have.Version, len(files)))
	}
	if have.Version > 0 && p.c.Expect != "" { // else another store than was meant would be upgraded
		n, err := p.read(ctx)
		if err != nil {
			return err
		}
		if err := p.expected(n); err != nil {
			return err
		}
	}
	s.schema = len(files)
	return p.migrate(ctx, *s, files)
}

func (p *preparation) layout(ctx context.Context) (l store.Layout, err error) {
	err = p.db.run(ctx, "read the schema's version", do(sqlPrepare()[3]).each(func(rows pgx.Rows) error { return rows.Scan(&l.Version, &l.Oldest) }))
	return l, err
}

// madeHere finds the tables and sequences of a migration.
var madeHere = lazy.Regexp(`CREATE (?:TABLE|SEQUENCE) dibs\.(\w+)`)

// tables are the tables and sequences that this program knows: a later version's need not be granted yet.
func (p *preparation) tables() (names []string, err error) {
	files, err := fs.Glob(p.migrations, "*.sql")
	for _, file := range files {
		text, err := fs.ReadFile(p.migrations, file)
		if err != nil {
			return nil, err
		}
		for _, m := range madeHere().FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, err
}

// migrate applies missing migrations in one transaction, under a lock. Another process waits for the lock and then
// finds nothing left to do. Servers of the older version are at work meanwhile.
func (p *preparation) migrate(ctx context.Context, s server, files []string) error {
	var version int
	for end := time.Now().Add(upgradeWait); ; {
		var busy bool
		var err error
		if version, busy, err = p.tryMigrate(ctx, files); err == nil {
			break
		}
		what := "prepare schema dibs in database " + s.database
		if !busy {
			return p.db.fail(what, err)
		}
		select {
		case <-time.After(upgradePause):
			if time.Now().Before(end) {
				continue
			}
		case <-ctx.Done():
		}
		return fmt.Errorf("postgres store %s: %s: %w: other transactions use its tables without a pause, and nothing was done; look for a long one, or a VACUUM, in pg_stat_activity: %w",
			p.db.address, what, lease.ErrUnavailable, err)
	}
	switch {
	case version == 0:
		p.did("created schema dibs, version %d, in database %s", len(files), s.database)
	case version < len(files):
		p.did("upgraded schema dibs in database %s from version %d to %d", s.database, version, len(files))
	}
	return nil
}

// An upgrade has to have all of dibs's tables to itself for a moment. It asks for them for less than a second, and
// lets the servers go on for upgradePause if it did not get them. After upgradeWait it gives up: a transaction that
// touched tasks stays open.
const upgradeWait, upgradePause = time.Minute, 300 * time.Millisecond

// tryMigrate returns the version that was there before. busy says that the tables were in use.
func (p *preparation) tryMigrate(ctx context.Context, files []string) (version int, busy bool, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlPrepare()[9]); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlPrepare()[2]); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, sqlPrepare()[1]).Scan(&there); err != nil {
			return err
		}
		if there {
			var have store.Layout
			if err := tx.QueryRow(ctx, sqlPrepare()[3]).Scan(&have.Version, &have.Oldest); err != nil {
				return err
			}
			if err := have.Use(len(files)); err != nil { // another program may have upgraded it meanwhile
				return err
			}
			if version = have.Version; version >= len(files) {
				return nil
			}
			if err := alone(ctx, tx); err != nil {
				busy = refused(err, "57014", "55P03", "40P01")
				return err
			}
		}
		for _, file := range files[version:] {
			text, err := fs.ReadFile(p.migrations, file)
			if err != nil {
				return err
			}
			// Without arguments the simple protocol carries all of a file's statements.
			if _, err := tx.Conn().PgConn().Exec(ctx, string(text)).ReadAll(); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		return nil
	})
	return version, busy, err
}

// alone locks all of dibs's tables until the transaction ends.
func alone(ctx context.Context, tx pgx.Tx) error {
	var lock, patience string
	if err := tx.QueryRow(ctx, sqlPrepare()[7]).Scan(&lock); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, sqlPrepare()[8]).Scan(&patience); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", patience); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, lock); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', '0', true)")
	return err
}

func (p *preparation) did(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// namespace makes the namespace where there is none, and has its identity checked (rule L9).
func (p *preparation) namespace(ctx context.Context) (n namespace, err error) {
	before, err := p.read(ctx)
	if err != nil {
		return n, err
	}
	if p.c.Read {
		p.maxTTL.Store(max(lease.DefaultTTL, p.c.SeenTTL).Microseconds())
		return before, p.found(before)
	}
	if before.installation == "" {
		err = p.db.run(ctx, "make the namespace", do(sqlPrepare()[4], p.c.Namespace, p.maxTTL.Load(), p.c.Init))
	}
	if err == nil {
		// An acquire of nothing makes the check that every acquire makes. What this address asks for was not seen.
		p.maxTTL.Store(max(lease.DefaultTTL, p.c.SeenTTL).Microseconds())
		_, err = leases{db: p.db, ns: p.c.Namespace, maxTTL: p.maxTTL}.Acquire(ctx, nil)
	}
	if err == nil && before.installation != "" && p.c.Init && before.maxTTL < p.c.TTL {
		if err = p.db.run(ctx, "raise max_ttl", do(sqlPrepare()[5], p.c.Namespace, p.c.TTL.Microseconds())); err == nil {
			p.did("raised max_ttl of namespace %s from %s to %s", p.c.Namespace, before.maxTTL, p.c.TTL)
		}
	}
	if err == nil {
		n, err = p.read(ctx)
	}
	if err != nil {
		return n, err
	}
	p.tell(before, n)
	return n, p.found(n)
}

// found refuses a namespace that is not there, is damaged, or is another one than was meant.
func (p *preparation) found(n namespace) error {
	if n.installation == "" && p.c.Read {
		return p.c.NotPrepared()
	}
	if err := store.CheckInstallation(n.installation); err != nil {
		return fmt.Errorf("postgres store %s: %w", p.db.address, err)
	}
	if err := p.expected(n); err != nil {
		return err
	}
	return p.c.CheckTTL(n.maxTTL)
}

func (p *preparation) tell(before, now namespace) {
	switch held := now.holdUntil.Sub(now.now).Round(time.Millisecond); {
	case before.installation == "" && held > 0:
		p.did("created namespace %s; it may have lost leases of an earlier one, so nothing is granted for %s (`dibs init` declares it new)", p.c.Namespace, held)
	case before.installation == "":
		p.did("created namespace %s", p.c.Namespace)
	case before.identity != now.identity:
		p.did("the server of namespace %s has changed (%s, was %s), so nothing is granted for %s", p.c.Namespace, now.identity, before.identity, held)
	case held > 0 && before.maxTTL < p.c.SeenTTL:
		p.did("the leases of namespace %s lasted %s, and it knew only %s: its data was lost, so nothing is granted for %s",
			p.c.Namespace, p.c.SeenTTL, before.maxTTL, held)
	}
}

// expected refuses another installation than the address asks for.
func (p *preparation) expected(n namespace) error {
	if p.c.Expect != "" && p.c.Expect != n.installation {
		return fmt.Errorf("postgres store %s: its installation id is %s, and expect_store asks for %s; correct the address or the pin", p.db.address, n.installation, p.c.Expect)
	}
	return nil
}

func (p *preparation) read(ctx context.Context) (n namespace, err error) {
	err = p.db.run(ctx, "read the namespace", do(sqlPrepare()[6], p.c.Namespace).each(func(rows pgx.Rows) error {
		var hold, ttl, now int64
		err := rows.Scan(&n.installation, &n.identity, &hold, &ttl, &now)
		n.holdUntil, n.maxTTL, n.now = instant(hold), time.Duration(ttl)*time.Microsecond, instant(now)
		return err
	}))
	return n, err
}

// properties are what the store declares about itself, with the settings of the server that weaken it.
func (n namespace) properties(s server, session bool) store.Properties {
	p := store.Properties{Reach: store.Fleet, InstallationID: n.installation, MaxTTL: n.maxTTL,
		Durable: s.fsync, Session: session, Schema: s.schema}
	if n.holdUntil.After(n.now) {
		p.HoldUntil = n.holdUntil
	}
	if !s.fsync {
		p.Flaw(store.Flaw{What: "The server runs with fsync or full_page_writes off: a crash of its machine can lose or damage acknowledged leases and claims.",
			Cure: "Set both to on, and restart it."})
	}
	if strings.Contains(n.identity, "?") {
		p.Flaw(store.Flaw{What: "This role cannot read the server's system identifier or timeline: after a failover that lost the last commits, grants are not held back.",
			Cure: "Grant it EXECUTE on pg_control_system() and pg_walfile_name(pg_lsn), where the service allows that."})
	}
	return p
}
