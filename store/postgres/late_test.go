package postgres

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// mortal is a client whose sockets can be closed as the kernel closes those of a killed process:
// without a word, with what it wrote still on its way.
type mortal struct {
	*store.Store
	mu      sync.Mutex
	sockets []*socket
	dead    bool
}

type socket struct {
	net.Conn
	written atomic.Int64
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.written.Add(int64(n))
	return n, err
}

func newMortal(t *testing.T, c store.Config) *mortal {
	t.Helper()
	cfg, err := poolConfig(c, new(behind))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "mortal"
	m := &mortal{}
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.dead {
			// The client takes back what it was cut off from, over a connection of its own. The dead do not.
			return nil, net.ErrClosed
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		s := &socket{Conn: conn}
		m.sockets = append(m.sockets, s)
		return s, err
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if m.Store, err = New(t.Context(), pool, c); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mortal) written() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sockets {
		n += s.written.Load()
	}
	return n
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, s := range m.sockets {
		_ = s.Conn.Close()
	}
}

// A server that is stopped, and woken when its client is long dead, carries out what its sockets
// have buffered (rule L1).
// Holds: L1.
func TestBufferedRequestsOfADeadClientDoNothingLate(t *testing.T) {
	t.Parallel()
	srv := testserver.StartPostgres(t)
	c := config(t, srv.URL)
	s := open(t, c)
	held := grant(t, s, "held")
	orphaned := grant(t, s, "short").Ref()
	base := lease.Record{}
	for _, key := range []string{"server", "newcomer"} {
		base = grant(t, s, key)
	}
	server := read(t, s, "server").Ref()
	at := time.UnixMicro(time.Now().UnixMicro()).UTC().Add(-time.Minute)
	claim := func(minute int, ref lease.Ref) tick.ClaimRequest {
		return tick.ClaimRequest{Job: "j", At: at.Add(time.Duration(minute) * time.Second), Lease: ref}
	}
	if a, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{claim(1, orphaned), claim(2, server)}); err != nil || a[0].Status != tick.Won || a[1].Status != tick.Won {
		t.Fatal(a, err)
	}
	short := renew(t, s, lease.RenewRequest{Ref: orphaned, TTL: 500 * time.Millisecond}).Record
	notAfter := short.Renewed.Add(time.Second)
	// A key's first acquire takes two requests, of which a dead client sends one at most.
	before := map[string]lease.Record{}
	for _, key := range []string{"late", "unbounded"} {
		before[key] = grant(t, s, key)
		release(t, s, before[key].Ref())
	}

	operations := map[string]func(*mortal) error{
		"acquire": func(m *mortal) error {
			req := request("late", 15*time.Second)
			req.NotAfter = notAfter
			_, err := m.Leases.Acquire(t.Context(), []lease.AcquireRequest{req})
			return err
		},
		"acquire without a bound": func(m *mortal) error {
			_, err := m.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("unbounded", 15*time.Second)})
			return err
		},
		"renew": func(m *mortal) error {
			_, err := m.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: held.Ref(), TTL: 15 * time.Second, NotAfter: notAfter}})
			return err
		},
		"renew what lapses meanwhile": func(m *mortal) error {
			_, err := m.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: orphaned, TTL: 15 * time.Second}})
			return err
		},
		"claim": func(m *mortal) error {
			req := claim(3, server)
			req.NotAfter = notAfter
			_, err := m.Ticks.Claim(t.Context(), []tick.ClaimRequest{req})
			return err
		},
		"take": func(m *mortal) error {
			_, err := m.Ticks.Take(t.Context(), tick.TakeRequest{Job: "j", At: claim(1, server).At, From: orphaned, Lease: base.Ref(), NotAfter: notAfter})
			return err
		},
		"start": func(m *mortal) error {
			_, err := m.Ticks.Start(t.Context(), []tick.StartRequest{{Run: run.Record{ID: "r", Job: "j", Tick: claim(2, server).At},
				Claim: server, Lease: server, NotAfter: notAfter}})
			return err
		},
	}
	clients := map[string]*mortal{}
	for name := range operations {
		clients[name] = newMortal(t, c)
		warmUp(t, clients[name])
	}

	srv.Stop()
	var done sync.WaitGroup
	for name, op := range operations {
		m := clients[name]
		before := m.written()
		done.Go(func() {
			if op(m) == nil {
				t.Errorf("%s: a stopped server answered", name)
			}
		})
		for m.written() == before {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(50 * time.Millisecond) // for the last write to be whole: it cannot be seen to be
	for _, m := range clients {
		m.die()
	}
	done.Wait()
	time.Sleep(time.Until(notAfter.Add(200 * time.Millisecond)))
	srv.Cont()
	awaitEnd(t, srv.URL)

	if r := read(t, s, "unbounded"); r.Token == before["unbounded"].Token {
		t.Error("the request without a bound was not carried out: this test shows nothing")
	}
	if r := read(t, s, "late"); r.Token != before["late"].Token {
		t.Errorf("granted: %+v", r)
	}
	if r := read(t, s, "held"); !r.Expires.Equal(held.Expires) {
		t.Errorf("renewed: %+v", r)
	}
	if r := read(t, s, "short"); !r.Expires.Equal(short.Expires) {
		t.Errorf("revived: %+v", r)
	}
	a, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{claim(1, server), claim(2, base.Ref()), claim(3, server)})
	if err != nil {
		t.Fatal(err)
	}
	if a[0].Tick.Lease != orphaned || a[1].Tick.State != tick.Claimed || a[2].Tick.Claimed.Before(notAfter) {
		t.Errorf("taken, started or claimed: %+v", a)
	}
}

// warmUp has the statements prepared, so that the requests to come travel whole.
func warmUp(t *testing.T, m *mortal) {
	t.Helper()
	ctx := t.Context()
	_, err := m.Leases.Acquire(ctx, []lease.AcquireRequest{request("of a warm client", time.Second)})
	if err == nil {
		_, err = m.Leases.Renew(ctx, nil)
	}
	if err == nil {
		_, err = m.Ticks.Claim(ctx, nil)
	}
	if err == nil {
		_, err = m.Ticks.Take(ctx, tick.TakeRequest{})
	}
	if err == nil {
		_, err = m.Ticks.Start(ctx, []tick.StartRequest{{Run: run.Record{ID: "none"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitEnd waits until the server has finished with what dead clients left behind: their sessions
// end only after it.
func awaitEnd(t *testing.T, address string) {
	t.Helper()
	c := superuser(t, address)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if one[int](t, c, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'mortal'") == 0 {
			return
		}
	}
	t.Fatal("the sessions of the dead clients do not end")
}
