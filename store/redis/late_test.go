package redis

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A server that was stopped carries out, when it wakes, what lies in its sockets' buffers, although who
// sent it is long gone (rule L1).
// Holds: L1.
func TestBufferedRequestsOfTheDead(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	c := config(t, server.URL)
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	held := request("held")
	held.TTL = time.Hour
	ref := acquire(t, s, held).Record.Ref()
	base := storeNow(t, s).Truncate(time.Minute)
	claim(t, s, ref, base) // to be started late
	lapsed := grantOf(t, s, "x").Ref()
	claimAndLapse(t, s, lapsed, base.Add(-time.Minute)) // to be taken late

	dying := opensToDie(t, c)
	knows(t, dying.s, ref, base)
	control := request("control")
	dying.connect(t, 6)
	server.Stop()
	notAfter := time.Now().Add(100 * time.Millisecond)
	late := request("k")
	late.NotAfter = notAfter
	dying.send(t, map[string]func(*store.Store) error{
		"control": func(s *store.Store) error {
			_, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{control})
			return err
		},
		"acquire": func(s *store.Store) error {
			_, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{late})
			return err
		},
		"renew": func(s *store.Store) error {
			_, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: ttl, NotAfter: notAfter}})
			return err
		},
		"claim": func(s *store.Store) error {
			_, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: base.Add(time.Minute), Lease: ref, Ahead: time.Hour, NotAfter: notAfter}})
			return err
		},
		"start": func(s *store.Store) error {
			_, err := s.Ticks.Start(t.Context(), []tick.StartRequest{{Run: run.Record{ID: "late", Job: "j", Tick: base}, Claim: ref, Lease: ref, NotAfter: notAfter}})
			return err
		},
		"take": func(s *store.Store) error {
			_, err := s.Ticks.Take(t.Context(), tick.TakeRequest{Job: "j", At: base.Add(-time.Minute), From: lapsed, Lease: ref, NotAfter: notAfter})
			return err
		},
	})
	isPast(notAfter)
	server.Cont()

	dying.isBuried(t)
	if read(t, s, "control").Status != lease.OK {
		t.Error("the control request, which has no bound, was not carried out")
	}
	if a := read(t, s, "k"); a.Status != lease.Gone {
		t.Errorf("granted to the dead: %+v", a.Record)
	}
	if r := read(t, s, "held").Record; r.Renewed.After(notAfter) {
		t.Errorf("renewed for the dead at %v", r.Renewed)
	}
	rows, err := s.History.Ticks(t.Context(), history.Query{Job: "j"})
	if err != nil || len(rows) != 2 {
		t.Fatalf("ticks: %+v, %v", rows, err)
	}
	for _, row := range rows {
		if row.State != tick.Claimed || row.At.Before(base) && row.Lease != lapsed {
			t.Errorf("changed for the dead: %+v", row)
		}
	}
}

// mortal is a process that dies with requests under way, which its server has not read yet.
type mortal struct {
	s      *store.Store
	client *goredis.Client

	mu   sync.Mutex
	sent map[net.Conn]bool // connections that were written to, since send was called
}

// opensToDie opens a namespace as such a process.
func opensToDie(t *testing.T, c store.Config) *mortal {
	t.Helper()
	o, err := options(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{sent: map[net.Conn]bool{}}
	o.ReadTimeout, o.ClientName = time.Minute, "mortal" // it does not give up: it dies
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mortalConn{conn, m}, err
	}
	m.client = goredis.NewClient(o)
	t.Cleanup(func() { _ = m.client.Close() })
	if m.s, err = New(t.Context(), m.client, c); err != nil {
		t.Fatal(err)
	}
	return m
}

type mortalConn struct {
	net.Conn
	m *mortal
}

func (c *mortalConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if err == nil {
		c.m.sent[c] = true
	}
	return n, err
}

// connect has so many connections ready: a stopped server greets nobody on a new one.
func (m *mortal) connect(t *testing.T, n int) {
	t.Helper()
	var all []*goredis.Conn
	for range n {
		conn := m.client.Conn()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		_ = conn.Close() // back into the pool
	}
}

// send has the process die once all of these requests are on their way to a stopped server.
func (m *mortal) send(t *testing.T, requests map[string]func(*store.Store) error) {
	t.Helper()
	m.mu.Lock()
	clear(m.sent)
	m.mu.Unlock()
	var all sync.WaitGroup
	for what, request := range requests {
		all.Go(func() {
			if err := request(m.s); err == nil {
				t.Errorf("%s was answered by a stopped server", what)
			}
		})
	}
	waitFor(t, "the requests to be sent", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.sent) == len(requests)
	})
	_ = m.client.Close()
	all.Wait()
}

// isBuried waits until the server has met the end of each of its connections: it has carried out all that was sent.
func (m *mortal) isBuried(t *testing.T) {
	t.Helper()
	raw := goredis.NewClient(&goredis.Options{Addr: m.client.Options().Addr})
	defer raw.Close()
	waitFor(t, "the end of a dead client's connections", func() bool {
		list := raw.ClientList(t.Context()).Val()
		return list != "" && !strings.Contains(list, "name=mortal")
	})
}

// isPast waits for an instant of the server's clock, which is ours.
func isPast(at time.Time) { time.Sleep(time.Until(at) + time.Millisecond) }

// knows has the server know the scripts: else a late EVALSHA does nothing for want of its script, which proves
// nothing.
func knows(t *testing.T, s *store.Store, ref lease.Ref, base time.Time) {
	t.Helper()
	if _, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	stranger := lease.Ref{Key: "nobody", Owner: lease.NewNonce(), Token: 1}
	_, err1 := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: base, Lease: stranger}})
	_, err2 := s.Ticks.Start(t.Context(), []tick.StartRequest{{Run: run.Record{ID: "none", Job: "none", Tick: base}, Lease: stranger}})
	_, err3 := s.Ticks.Take(t.Context(), tick.TakeRequest{Job: "none", At: base, Lease: stranger})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
}

func claim(t *testing.T, s *store.Store, ref lease.Ref, at time.Time) {
	t.Helper()
	r, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: at, Lease: ref}})
	if err != nil || r[0].Status != tick.Won {
		t.Fatalf("claim: %+v, %v", r, err)
	}
}

// claimAndLapse leaves a claim whose lease is not live.
func claimAndLapse(t *testing.T, s *store.Store, ref lease.Ref, at time.Time) {
	t.Helper()
	claim(t, s, ref, at)
	renewFor(t, s, ref, 5*time.Millisecond)
	waitFor(t, "the lease's end", func() bool { return !read(t, s, ref.Key).Record.Live(storeNow(t, s)) })
}

func renewFor(t *testing.T, s *store.Store, ref lease.Ref, d time.Duration) {
	t.Helper()
	r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: d}})
	if err != nil || r.Answers[0].Status != lease.OK {
		t.Fatalf("renew: %+v, %v", r, err)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
