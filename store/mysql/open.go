package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/tlsfiles"
	"github.com/dibs-run/dibs/store"
)

// mostConns is how many connections a store opens at most: as many as a process has requests under way, so that none
// waits for another's connection.
const mostConns = 16

// OpenConfig connects to mysql://user:password@host:3306/database (or mariadb://). Parameters of the address that are
// not dibs's go to the driver (tls, timeout, …); socket=/path connects through a Unix socket. Errors wrap
// lease.ErrUnavailable if the server does not answer.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	return openKnowing(ctx, c, Migrations())
}

// openKnowing is OpenConfig of a program that knows these migrations.
func openKnowing(ctx context.Context, c store.Config, migrations fs.FS) (*store.Store, error) {
	connector, err := connectorOf(c.URL)
	if err != nil {
		return nil, fmt.Errorf("mysql store %s: %w", c, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(mostConns)
	db.SetMaxIdleConns(mostConns)
	db.SetConnMaxIdleTime(time.Minute) // long before any wait_timeout
	s, err := open(ctx, db, c, false, migrations)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for _, f := range exposed(c) {
		s.Properties.Flaw(f)
	}
	letGo := s.Close
	s.Close = func() error { return errors.Join(letGo(), db.Close()) }
	return s, nil
}

// New makes a store over the caller's pool. Its DSN must have multiStatements=true, interpolateParams=true and
// time_zone=%27%2B00%3A00%27, and must leave sql_mode strict, autocommit on, the character set utf8mb4 and a few
// more settings as they are by default; New checks a connection, and names a setting that does not fit. The store
// takes one connection per operation, and with c.Session one more for as long as it is open, so the pool needs at
// least three. The queue takes less than half of them at a time, as the pool is bounded when New is called. Close
// leaves the pool open. c.URL may be nil.
func New(ctx context.Context, db *sql.DB, c store.Config) (*store.Store, error) {
	return open(ctx, db, c, true, Migrations())
}

// open makes a store of a program that knows these migrations.
func open(ctx context.Context, db *sql.DB, c store.Config, shared bool, migrations fs.FS) (*store.Store, error) {
	if err := store.CheckNamespace(c.Namespace); err != nil {
		return nil, fmt.Errorf("mysql store: %w", err)
	}
	d := &database{db: db, addr: c.String(), ns: []byte(c.Namespace), shared: shared, migrations: migrations}
	d.maxTTL.Store(c.Longest().Microseconds())
	srv, err := d.inspect(ctx)
	if err != nil {
		return nil, err
	}
	d.identity = srv.identity()
	version, tables, err := d.migrate(ctx, c)
	if err != nil {
		return nil, err
	}
	if !c.Read {
		if err := d.rights(ctx); err != nil {
			return nil, err
		}
	}
	m, made, err := d.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	d.maxTTL.Store(m.maxTTL.Microseconds())
	s := &store.Store{
		Kind: "mysql", URL: d.addr, Leases: leases{d}, Ticks: ticks{d}, History: told{d}, Fleet: processes{d},
		Properties: store.Properties{Reach: store.Fleet, InstallationID: m.installation, MaxTTL: m.maxTTL,
			Durable: srv.durable(), Weaker: srv.weaker(), Schema: version},
		Prepared: append(tables, made...),
		Close:    func() error { return nil },
	}
	if srv.skipsLocked() {
		q := queues{d, new(known), roomIn(db)}
		s.Queue, s.Tasks = q, admin{q}
	}
	for _, f := range srv.flaws() {
		s.Properties.Flaw(f)
	}
	if m.holdUntil.After(m.now) {
		s.Properties.HoldUntil = m.holdUntil
	}
	if c.Session {
		withSession(s, d, m.maxTTL)
	}
	return s, nil
}

// driverConfig translates an address. Settings that the packets rely on win over its parameters.
func driverConfig(u *url.URL) (*mysqldriver.Config, error) {
	if u == nil || u.Hostname() == "" && !u.Query().Has("socket") {
		return nil, errors.New("it names no host; write mysql://user@host:3306/database")
	}
	q := u.Query()
	network, addr := "tcp", u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if socket := q.Get("socket"); socket != "" {
		network, addr = "unix", socket
		q.Del("socket")
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" {
		return nil, errors.New("it names no database; write mysql://user@host:3306/database")
	}
	cfg, err := mysqldriver.ParseDSN(network + "(" + addr + ")/" + url.PathEscape(database) + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.MultiStatements, cfg.InterpolateParams, cfg.ClientFoundRows = true, true, false
	cfg.Logger = &mysqldriver.NopLogger{} // what goes wrong is in our errors
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	return cfg, nil
}

// connectorOf makes our own connections.
func connectorOf(u *url.URL) (driver.Connector, error) {
	cfg, err := driverConfig(u)
	if err != nil {
		return nil, err
	}
	c, err := mysqldriver.NewConnector(cfg)
	return ownSessions{c, cfg}, err
}

// ownSessions gives each of our own connections the settings that the packets rely on.
type ownSessions struct {
	driver.Connector
	cfg *mysqldriver.Config
}

func (o ownSessions) Connect(ctx context.Context) (driver.Conn, error) {
	connector, err := o.renewed()
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.(driver.ExecerContext).ExecContext(ctx, statements()["session"], nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// renewed returns a connector with the authorities that this host has now.
func (o ownSessions) renewed() (driver.Connector, error) {
	if t := o.cfg.TLS; t == nil || t.RootCAs != nil || t.InsecureSkipVerify {
		return o.Connector, nil
	}
	pool, err := tlsfiles.System.Pool()
	if err != nil || pool == nil {
		return o.Connector, err
	}
	cfg := o.cfg.Clone()
	cfg.TLS.RootCAs = pool
	return mysqldriver.NewConnector(cfg)
}

// exposed is what is wrong with how an address reaches a server beyond this host.
func exposed(c store.Config) []store.Flaw {
	const cure = "Write tls=true, without allowFallbackToPlaintext, in the address; SSL_CERT_FILE names an authority of your own."
	cfg, err := driverConfig(c.URL)
	switch {
	case err != nil || cfg.TLS == nil || c.Loopback():
	case cfg.AllowFallbackToPlaintext: // which tls=preferred implies
		return []store.Flaw{{What: "The connection falls back to plain text whenever somebody between this host and the server wants it (tls=preferred, or allowFallbackToPlaintext).",
			Cure: cure}}
	case cfg.TLS.InsecureSkipVerify:
		return []store.Flaw{{What: "Anybody between this host and the server can pose as the server: its certificate is not verified (tls=skip-verify).", Cure: cure}}
	}
	return nil
}
