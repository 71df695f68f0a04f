package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

const long = 15 * time.Second

func config(t testing.TB, address string) store.Config {
	t.Helper()
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace, c.Init = "t"+lease.NewNonce().String()[:8], true
	return c
}

func mustOpen(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// raw is a connection pool beside the store, on the database of address.
func raw(t testing.TB, address string, change func(*mysqldriver.Config)) *sql.DB {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := driverConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Params = map[string]string{"time_zone": "'+00:00'", "sql_mode": "'STRICT_ALL_TABLES'"} // as New's documentation says
	if change != nil {
		change(cfg)
	}
	connector, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// sockets are the connections of a pool.
type sockets struct {
	made   atomic.Int64
	writes atomic.Int64
	about  string       // a text to look for
	seen   atomic.Int64 // how often it was written or read
}

// watch has a pool's connections looked at.
func (s *sockets) watch(c *mysqldriver.Config) {
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s.made.Add(1)
		return &socket{conn.(*net.TCPConn), s}, nil
	}
}

type socket struct {
	*net.TCPConn
	of *sockets
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.TCPConn.Write(b)
	s.of.look(b[:n])
	s.of.writes.Add(1)
	return n, err
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.TCPConn.Read(b)
	s.of.look(b[:n])
	return n, err
}

func (s *sockets) look(b []byte) {
	if s.about != "" {
		s.seen.Add(int64(bytes.Count(b, []byte(s.about))))
	}
}

func exec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func count(t testing.TB, db *sql.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// waitsForRow reports whether a statement with a namespace in its text waits for a row. Unlike the tables of
// information_schema, the server's monitor is always of now.
func waitsForRow(t testing.TB, db *sql.DB, ns string) bool {
	t.Helper()
	var kind, name, text string
	if err := db.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &text); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(strings.Split(text, "---TRANSACTION "), func(s string) bool {
		return strings.Contains(s, "LOCK WAIT") && strings.Contains(s, ns)
	})
}

func request(k lease.Key) lease.AcquireRequest {
	return lease.AcquireRequest{Key: k, TTL: long, Holder: lease.Holder{ID: lease.NewNonce(), Host: "h", PID: 1}}
}

func acquire(t testing.TB, s *store.Store, r lease.AcquireRequest) lease.Answer {
	t.Helper()
	reply, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{r})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Answers[0]
}

func grant(t testing.TB, s *store.Store, r lease.AcquireRequest) lease.Ref {
	t.Helper()
	a := acquire(t, s, r)
	if a.Status != lease.OK {
		t.Fatalf("Acquire(%q): %v", r.Key, a.Status)
	}
	return a.Record.Ref()
}

func renew(t testing.TB, s *store.Store, ref lease.Ref) lease.Status {
	t.Helper()
	reply, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: long}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Answers[0].Status
}

func release(t testing.TB, s *store.Store, ref lease.Ref) {
	t.Helper()
	reply, err := s.Leases.Release(t.Context(), []lease.Ref{ref})
	if err != nil || reply.Answers[0].Status != lease.OK {
		t.Fatalf("Release: %v, %v", reply, err)
	}
}

func read(t testing.TB, s *store.Store, k lease.Key) (lease.Record, time.Time) {
	t.Helper()
	reply, err := s.Leases.Read(t.Context(), []lease.Key{k})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Answers[0].Record, reply.Now
}

// eventually waits for something that happens without being told.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

func withSessionLock(address string) string {
	if strings.Contains(address, "?") {
		return address + "&lock=session"
	}
	return address + "?lock=session"
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
