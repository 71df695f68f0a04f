package redis

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

const ttl = 15 * time.Second

// config is a namespace of the test's own at a server.
func config(t testing.TB, url string) store.Config {
	t.Helper()
	c, err := store.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = "t" + lease.NewNonce().String()[:12]
	return c
}

func open(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// prepared opens a new namespace as `dibs init` does.
func prepared(t testing.TB, url string) (*store.Store, store.Config) {
	t.Helper()
	c := config(t, url)
	c.Init = true
	s := open(t, c)
	c.Init = false
	t.Cleanup(func() { sweep(t, c) })
	return s, c
}

// sweep leaves a shared server as it was. Where the test ended its server there is nothing to sweep.
func sweep(t testing.TB, c store.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	o, err := options(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	raw := goredis.NewClient(o)
	defer raw.Close()
	found := raw.Scan(ctx, 0, "dibs:{"+c.Namespace+"}:*", 10_000).Iterator()
	var names []string
	for found.Next(ctx) {
		names = append(names, found.Val())
	}
	if len(names) > 0 {
		raw.Del(ctx, names...)
	}
}

// rawClient talks to the server past the store.
func rawClient(t testing.TB, c store.Config) *goredis.Client {
	t.Helper()
	o, err := options(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	raw := goredis.NewClient(o)
	t.Cleanup(func() { _ = raw.Close() })
	return raw
}

func request(key lease.Key) lease.AcquireRequest {
	return lease.AcquireRequest{Key: key, TTL: ttl, Holder: lease.Holder{ID: lease.NewNonce(), Host: "web-1", PID: 4711, Command: "php invoices.php"}}
}

func acquire(t testing.TB, s *store.Store, req lease.AcquireRequest) lease.Answer {
	t.Helper()
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{req})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func grantOf(t testing.TB, s *store.Store, key lease.Key) lease.Record {
	t.Helper()
	a := acquire(t, s, request(key))
	if a.Status != lease.OK {
		t.Fatalf("acquire %q: %s", key, a.Status)
	}
	return a.Record
}

func renew(t testing.TB, s *store.Store, ref lease.Ref) lease.Answer {
	t.Helper()
	r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func read(t testing.TB, s *store.Store, key lease.Key) lease.Answer {
	t.Helper()
	r, err := s.Leases.Read(t.Context(), []lease.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func storeNow(t testing.TB, s *store.Store) time.Time {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// ownServer is a Redis that only this test uses.
func ownServer(t testing.TB, args ...string) *testserver.Server {
	t.Helper()
	return testserver.StartRedis(t, args...)
}
