package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// The suite lets any process renew any hold, and reclaims from processes that go on living. With
// session locks only the process that holds renews, and a dead one has no session. The type
// sessions puts that right: it has the holder renew, and ends the session of who is reclaimed from.
type sessions struct {
	mu        sync.Mutex
	processes map[string][]*session // by namespace
}

func (f *sessions) open(ctx context.Context, c store.Config) (*store.Store, error) {
	c.Session = true
	s, err := OpenConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	p := s.Leases.(*session)
	f.mu.Lock()
	f.processes[c.Namespace] = append(f.processes[c.Namespace], p)
	f.mu.Unlock()
	s.Leases = member{p, f}
	return s, nil
}

// holder is the process that has the lock of a hold, or else p itself.
func (f *sessions) holder(p *session, ref lease.Ref) *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.processes[p.ns] {
		if other.has(ref) {
			return other
		}
	}
	return p
}

type member struct {
	*session
	fleet *sessions
}

func (m member) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	if len(reqs) == 1 {
		return m.fleet.holder(m.session, reqs[0].Ref).Renew(ctx, reqs)
	}
	return m.session.Renew(ctx, reqs)
}

func (m member) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	for _, r := range reqs {
		dead := m.fleet.holder(m.session, r.Reclaim)
		if row, err := m.Read(ctx, []lease.Key{r.Key}); err == nil && dead != m.session && row.Answers[0].Record.Ref() == r.Reclaim {
			_ = dead.close()
		}
	}
	return m.session.Acquire(ctx, reqs)
}

func TestStoreWithSessionLocks(t *testing.T) {
	t.Parallel()
	f := &sessions{processes: map[string][]*session{}}
	storetest.Run(t, f.open, testserver.Postgres(t))
}

// superuser is a session of somebody else on the same server.
func superuser(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func one[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func sessionStore(t testing.TB) (*store.Store, store.Config) {
	c := config(t, testserver.Postgres(t))
	c.Session = true
	return open(t, c), c
}

func TestLockIDIsWhatItsDocumentationSays(t *testing.T) {
	t.Parallel()
	c := superuser(t, testserver.Postgres(t))
	want := one[int64](t, c, `SELECT ('x' || left(encode(sha256('dibs/invoices'), 'hex'), 16))::bit(64)::bigint`)
	if got := LockID("dibs", "invoices"); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestAnotherProgramsLockExcludesUs(t *testing.T) {
	t.Parallel()
	s, c := sessionStore(t)
	other := superuser(t, c.URL.String())
	one[any](t, other, "SELECT pg_advisory_lock($1)", LockID(c.Namespace, "k"))
	a, now := acquire(t, s, request("k", 15*time.Second))
	if a.Status != lease.Held || a.Record.Holder.PID != int(other.PgConn().PID()) || !a.Record.Live(now) {
		t.Errorf("while another has it: %v, %+v", a.Status, a.Record)
	}
	one[bool](t, other, "SELECT pg_advisory_unlock($1)", LockID(c.Namespace, "k"))
	r := grant(t, s, "k")
	if one[bool](t, other, "SELECT pg_try_advisory_lock($1)", LockID(c.Namespace, "k")) {
		t.Error("another got the lock of a key that is held")
	}
	release(t, s, r.Ref())
	if !one[bool](t, other, "SELECT pg_try_advisory_lock($1)", LockID(c.Namespace, "k")) {
		t.Error("the lock of a released key is still taken")
	}
}

func TestALapsedHoldFreesItsSessionLock(t *testing.T) {
	t.Parallel()
	s, c := sessionStore(t)
	a, _ := acquire(t, s, request("k", 200*time.Millisecond))
	if a.Status != lease.OK {
		t.Fatal(a.Status)
	}
	other := superuser(t, c.URL.String())
	one[any](t, other, "SELECT pg_advisory_lock($1)", LockID(c.Namespace, "k")) // waits for it
	if now, _ := s.Now(t.Context()); a.Record.Live(now) {
		t.Error("the lock was freed under a live row")
	}
	if n := len(s.Leases.(*session).held); n != 0 {
		t.Errorf("%d locks are still in the table", n)
	}
}

// The timer of a hold can fire while the key is granted or renewed, and get its turn after that.
// Holds: L11.
func TestALateTimerFreesNoNewHold(t *testing.T) {
	t.Parallel()
	s, c := sessionStore(t)
	own := s.Leases.(*session)
	r := grant(t, s, "k")
	own.mu.Lock()
	h := own.held["k"]
	own.mu.Unlock()
	held := func(when string) {
		t.Helper()
		if one[bool](t, superuser(t, c.URL.String()), "SELECT pg_try_advisory_lock($1)", LockID(c.Namespace, "k")) {
			t.Errorf("%s, another program got the lock of a key that is held", when)
		}
	}
	own.forget("k", h)
	held("after a late timer")
	own.mu.Lock()
	h.asked, h.until = true, time.Time{} // somebody asks for the key, and the hold is due
	own.mu.Unlock()
	own.forget("k", h)
	if a := renew(t, s, lease.RenewRequest{Ref: r.Ref(), TTL: 15 * time.Second}); a.Status != lease.OK {
		t.Fatal(a.Status)
	}
	if a, _ := acquire(t, s, request("k", 15*time.Second)); a.Status != lease.Held {
		t.Errorf("%v", a.Status)
	}
	held("after a late timer, a renewal and a refusal")
}

func TestHoldsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	s, c := sessionStore(t)
	one[bool](t, superuser(t, c.URL.String()), `SELECT bool_and(pg_terminate_backend(pid)) FROM pg_locks
		WHERE locktype = 'advisory' AND classid = ($1::bigint >> 32)::bit(32)::bigint::oid`, granted(t, s, c, "a"))
	req := lease.RenewRequest{Ref: read(t, s, "a").Ref(), TTL: 15 * time.Second}
	// The first renewal after the loss learns of it; it may be told that all is unknown.
	if r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{req}); err == nil && r.Answers[0].Status != lease.Gone {
		t.Errorf("renewal: %v", r.Answers[0].Status)
	}
	if a := renew(t, s, req); a.Status != lease.Gone {
		t.Errorf("renewal: %v", a.Status)
	}
	grant(t, s, "b") // over a new session, which does not bring the old hold back
	if a := renew(t, s, req); a.Status != lease.Gone || a.Record.Owner != req.Owner {
		t.Errorf("renewal: %v, %+v", a.Status, a.Record)
	}
	if a := release(t, s, req.Ref); a.Status != lease.OK {
		t.Errorf("release: %v", a.Status)
	}
	grant(t, open(t, c), "a")
}

// granted acquires a key and returns the id of its lock.
func granted(t testing.TB, s *store.Store, c store.Config, key lease.Key) int64 {
	grant(t, s, string(key))
	return LockID(c.Namespace, key)
}

func read(t testing.TB, s *store.Store, key lease.Key) lease.Record {
	t.Helper()
	r, err := s.Leases.Read(t.Context(), []lease.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0].Record
}

func TestASilentServerCostsNoSessionLock(t *testing.T) {
	t.Parallel()
	srv := testserver.StartPostgres(t)
	c := config(t, srv.URL)
	c.Session = true
	s := open(t, c)
	r := grant(t, s, "k")
	req := lease.RenewRequest{Ref: r.Ref(), TTL: 15 * time.Second}
	srv.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Leases.Renew(ctx, []lease.RenewRequest{req}); err == nil {
		t.Error("a stopped server renewed")
	}
	srv.Cont()
	if a := renew(t, s, req); a.Status != lease.OK {
		t.Errorf("renewal after the silence: %v", a.Status)
	}
}

func TestCallersPoolWithSessionLocks(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	c.Session = true
	pool, err := pgxpool.New(t.Context(), c.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	release(t, s, grant(t, s, "k").Ref())
	if err = s.Close(); err != nil {
		t.Error(err)
	}
	if err = pool.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool after Close: %v", err)
	}
}

// A call that its caller gives up while it takes locks leaves no lock behind for longer than its row lives.
// Holds: L11.
func TestACallThatIsGivenUpLeavesNoSessionLock(t *testing.T) {
	t.Parallel()
	s, c := sessionStore(t)
	req := request("a", 500*time.Millisecond)
	if a, _ := acquire(t, s, req); a.Status != lease.OK {
		t.Fatal(a.Status)
	}
	own := s.Leases.(*session)
	conn := <-own.conn.turn // somebody uses the connection
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := own.lock(ctx, []lease.AcquireRequest{req, request("b", time.Minute)}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	own.conn.turn <- conn
	one[any](t, superuser(t, c.URL.String()), "SELECT pg_advisory_lock($1)", LockID(c.Namespace, "a")) // waits for it
}
