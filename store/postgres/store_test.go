package postgres

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/tick"
)

// config is an address with a namespace of the test's own.
func config(t testing.TB, address string, params ...string) store.Config {
	t.Helper()
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace, c.Init = "t-"+lease.NewNonce().String(), true
	return c
}

func open(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// both runs a test over plain rows and over session locks.
func both(t *testing.T, f func(t *testing.T, c store.Config)) {
	for _, session := range []bool{false, true} {
		t.Run(fmt.Sprintf("session=%v", session), func(t *testing.T) {
			c := config(t, testserver.Postgres(t))
			c.Session = session
			f(t, c)
		})
	}
}

// database makes a database for the test alone on the server of an address.
func database(t testing.TB, address string) string {
	t.Helper()
	name := "dibs_" + lease.NewNonce().String()[:12]
	admin := func(sql string) {
		c, err := pgx.Connect(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err = c.Exec(context.Background(), sql); err != nil {
			t.Error(err)
		}
	}
	admin("CREATE DATABASE " + name)
	t.Cleanup(func() { admin("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func request(key string, ttl time.Duration) lease.AcquireRequest {
	return lease.AcquireRequest{Key: lease.Key(key), TTL: ttl, Holder: lease.Holder{ID: lease.NewNonce(), Host: "web-1", PID: 7}}
}

func acquire(t testing.TB, s *store.Store, req lease.AcquireRequest) (lease.Answer, time.Time) {
	t.Helper()
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{req})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0], r.Now
}

func grant(t testing.TB, s *store.Store, key string) lease.Record {
	t.Helper()
	a, _ := acquire(t, s, request(key, 15*time.Second))
	if a.Status != lease.OK {
		t.Fatalf("acquire %s: %v, %+v", key, a.Status, a.Record)
	}
	return a.Record
}

func renew(t testing.TB, s *store.Store, req lease.RenewRequest) lease.Answer {
	t.Helper()
	r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{req})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func release(t testing.TB, s *store.Store, ref lease.Ref) lease.Answer {
	t.Helper()
	r, err := s.Leases.Release(t.Context(), []lease.Ref{ref})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func TestLeaseLife(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c store.Config) {
		s, other := open(t, c), open(t, c)
		first := grant(t, s, "app/job")
		if a, _ := acquire(t, other, request("app/job", time.Second)); a.Status != lease.Held || a.Record.Owner != first.Owner {
			t.Errorf("a second holder: %v, %+v", a.Status, a.Record)
		}
		req := lease.RenewRequest{Ref: first.Ref(), TTL: 15 * time.Second}
		if a := renew(t, s, req); a.Status != lease.OK || !a.Record.Expires.After(first.Expires) {
			t.Errorf("renew: %v, %+v", a.Status, a.Record)
		}
		if a := release(t, s, first.Ref()); a.Status != lease.OK || !a.Record.Expires.IsZero() || a.Record.Token != first.Token {
			t.Errorf("release: %v, %+v", a.Status, a.Record)
		}
		if a := release(t, s, first.Ref()); a.Status != lease.Gone {
			t.Errorf("second release: %v", a.Status)
		}
		if a := renew(t, s, req); a.Status != lease.Gone {
			t.Errorf("renewal of what was released: %v", a.Status)
		}
		if next := grant(t, other, "app/job"); next.Token <= first.Token {
			t.Errorf("token %d after %d", next.Token, first.Token)
		}
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, OpenConfig, database(t, testserver.Postgres(t)))
}

// Holds: promise 1.
func TestALossOfAllDataIsWaitedForAsLongAsLeasesLasted(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	storetest.RunLoss(t, OpenConfig, address, func(t *testing.T, c store.Config) {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for _, table := range []string{"namespaces", "leases"} {
			if _, err := conn.Exec(t.Context(), "DELETE FROM dibs."+table+" WHERE ns = $1", c.Namespace); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Holds: promise 1.
func TestAHoldBackOfAFastClockEnds(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	storetest.RunHoldBack(t, OpenConfig, address, holdUntil(address))
}

func holdUntil(address string) func(t *testing.T, c store.Config, until time.Time) {
	return func(t *testing.T, c store.Config, until time.Time) {
		if _, err := superuser(t, address).Exec(t.Context(), "UPDATE dibs.namespaces SET hold_until = $2 WHERE ns = $1", c.Namespace, until.UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSlotsAreHeldBack(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	storetest.RunHeldSlots(t, OpenConfig, address, holdUntil(address), func(t *testing.T, c store.Config) {
		if _, err := superuser(t, address).Exec(t.Context(), "UPDATE dibs.namespaces SET identity = 'another' WHERE ns = $1", c.Namespace); err != nil {
			t.Fatal(err)
		}
	})
}

func TestALimitThatIsNotUsedIsForgotten(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	storetest.RunForgottenLimits(t, OpenConfig, address, func(t *testing.T, c store.Config) {
		_, err := superuser(t, address).Exec(t.Context(), `UPDATE dibs.queue_limits SET token = token - 25 * 3600000000::bigint, since = since - 25 * 3600000000::bigint,
			checked = 0 WHERE ns = $1`, c.Namespace)
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A grant is acknowledged when it is as durable as the server makes commits, and so is an outcome, also where the
// lease is released in the same step: a finished run would run again. A release alone is not waited for: if a crash
// loses it, the hold lapses. Here no commit becomes durable, since it waits for a standby that never comes.
func TestAReleaseIsNotWaitedForAndAGrantIs(t *testing.T) {
	t.Parallel()
	srv := testserver.StartPostgres(t)
	s := open(t, config(t, srv.URL))
	var refs []lease.Ref
	for _, key := range []string{"lone", "one", "of two"} {
		refs = append(refs, grant(t, s, key).Ref())
	}
	for _, key := range []string{"known", "known as well"} {
		release(t, s, grant(t, s, key).Ref())
	}
	server, own := grant(t, s, "server").Ref(), grant(t, s, "j").Ref()
	ran := run.Record{ID: run.NewID(), Job: "j", Tick: time.Now().UTC().Truncate(time.Second), Owner: own.Owner, Token: own.Token}
	claimed, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: ran.Tick, Lease: server, Ahead: time.Minute}})
	if err != nil || claimed[0].Status != tick.Won {
		t.Fatal(claimed, err)
	}
	started, err := s.Ticks.Start(t.Context(), []tick.StartRequest{{Run: ran, Claim: server, Lease: own}})
	if err != nil || started[0].Status != tick.Won {
		t.Fatal(started, err)
	}
	ran.Outcome = run.Succeeded
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"} {
		if _, err := superuser(t, srv.URL).Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	watcher := superuser(t, srv.URL)
	waits := func() bool {
		return one[int](t, watcher, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0
	}
	// The server does so from some moment on.
	ctx, giveUp := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			_, _ = superuser(t, srv.URL).Exec(ctx, "SELECT pg_logical_emit_message(true, '', '')")
		}
	})
	for !waits() {
		time.Sleep(time.Millisecond)
	}
	giveUp()
	writer.Wait()
	for waits() {
		time.Sleep(time.Millisecond)
	}
	// waitedFor checks that a call is not answered as long as its commit is not durable.
	waitedFor := func(what string, call func(context.Context) error) {
		t.Helper()
		ctx, giveUp := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- call(ctx) }()
		for !waits() {
			select {
			case err := <-answered:
				t.Fatalf("%s was answered before its commit was durable: %v", what, err)
			case <-time.After(time.Millisecond):
			}
		}
		giveUp()
		if err := <-answered; err == nil {
			t.Errorf("%s was acknowledged", what)
		}
		for waits() {
			time.Sleep(time.Millisecond)
		}
	}
	for _, keys := range [][]lease.Key{{"known"}, {"new"}, {"known as well", "other"}} {
		waitedFor(fmt.Sprintf("the acquire of %q", keys), func(ctx context.Context) error {
			var reqs []lease.AcquireRequest
			for _, key := range keys {
				reqs = append(reqs, request(string(key), 15*time.Second))
			}
			_, err := s.Leases.Acquire(ctx, reqs)
			return err
		})
	}
	waitedFor("an outcome with its release", func(ctx context.Context) error {
		_, err := s.Ticks.Close(ctx, []tick.CloseRequest{{Run: ran, Claim: own, Release: own}})
		return err
	})
	for _, freed := range [][]lease.Ref{refs[:1], refs[1:]} {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			r, err := s.Leases.Release(t.Context(), freed)
			if err != nil || r.Answers[0].Status != lease.OK || r.Answers[len(freed)-1].Status != lease.OK {
				t.Errorf("release of %v: %+v, %v", freed, r.Answers, err)
			}
		}()
		for done := false; !done; {
			select {
			case <-answered:
				done = true
			case <-time.After(time.Millisecond):
				if waits() {
					t.Fatalf("the release of %v waits for its commit to be durable", freed)
				}
			}
		}
	}
	for _, ref := range refs {
		if r := read(t, s, ref.Key); !r.Expires.IsZero() {
			t.Errorf("%s was not freed: %+v", ref.Key, r)
		}
	}
}
