package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestTenProcessesPrepareAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	c.Init = false
	stores := make([]*store.Store, 10)
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			s, err := OpenConfig(t.Context(), c)
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			stores[i] = s
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	created := 0
	for _, s := range stores {
		defer func() { _ = s.Close() }()
		if strings.Contains(strings.Join(s.Prepared, "\n"), "created schema") {
			created++
		}
		if s.Properties.InstallationID != stores[0].Properties.InstallationID || !s.Properties.HoldUntil.Equal(stores[0].Properties.HoldUntil) {
			t.Errorf("two processes see two stores: %+v, %+v", s.Properties, stores[0].Properties)
		}
	}
	if created != 1 {
		t.Errorf("%d processes say that they created the schema", created)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	open(t, c)
	if _, err := superuser(t, c.URL.String()).Exec(t.Context(), "INSERT INTO dibs.migrations VALUES (99, 99)"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenConfig(t.Context(), c); !errors.Is(err, store.ErrTooNew) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsNeverShowThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://u:s3cret@127.0.0.1:1/db", "postgres://u:s3cret@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://127.0.0.1:1/db?password=s3cret", "postgres://u:s3cret@127.0.0.1:1/db?pool_max_conns=x",
	} {
		_, err := OpenConfig(t.Context(), config(t, address))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := OpenConfig(t.Context(), config(t, "postgres://u@127.0.0.1:1/db")); !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
}

// A failing commit is an answer to the whole batch, after every statement of it has succeeded.
func TestAFailingCommitIsNoGrant(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	_, err := superuser(t, c.URL.String()).Exec(t.Context(), `
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''at commit''; END';
		CREATE CONSTRAINT TRIGGER fail AFTER UPDATE ON dibs.leases DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("k", time.Second)})
	if err == nil || !strings.Contains(err.Error(), "at commit") {
		t.Errorf("acquire: %+v, %v", r, err)
	}
	if r := read(t, s, "k"); r.Token != 0 {
		t.Errorf("granted: %+v", r)
	}
}

// A promoted standby may lack the last leases, whoever was granted them (rule L9).
// Holds: L9.
func TestPromotionHoldsGrantsBackAtOnce(t *testing.T) {
	t.Parallel()
	srv := testserver.StartPostgres(t)
	c := config(t, srv.URL)
	s := open(t, c)
	held := grant(t, s, "held")
	pool, err := pgxpool.New(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	callers, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	defer callers.Close()
	dir := one[string](t, superuser(t, srv.URL), "SHOW data_directory")
	if err := os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644); err != nil {
		t.Skipf("cannot make the server a standby: %v", err)
	}
	srv.Restart()
	if _, err := OpenConfig(t.Context(), c); !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("opening a standby: %v", err)
	}
	for range 20 { // the first ones find out that their connections have ended
		_, err = callers.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", TTL: 15 * time.Second, Holder: lease.Holder{ID: lease.NewNonce()}}})
		if err == nil || strings.Contains(err.Error(), "standby") {
			break
		}
	}
	if !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "use the primary's address") {
		t.Errorf("a caller's connection to a standby: %v", err)
	}
	one[bool](t, superuser(t, srv.URL), "SELECT pg_promote()")

	since := one[time.Time](t, superuser(t, srv.URL), "SELECT clock_timestamp()")
	promoted := open(t, c)
	if promoted.Properties.HoldUntil.IsZero() || len(promoted.Prepared) == 0 {
		t.Errorf("grants go on: %+v, %q", promoted.Properties, promoted.Prepared)
	}
	if a, _ := acquire(t, promoted, request("k", time.Second)); a.Status != lease.HeldBack || a.Until.Before(since.Add(lease.DefaultTTL)) {
		t.Errorf("acquire: %v until %v, promoted at %v", a.Status, a.Until, since)
	}
	if a := renew(t, promoted, lease.RenewRequest{Ref: held.Ref(), TTL: 15 * time.Second}); a.Status != lease.OK {
		t.Errorf("a hold that was replicated: %v", a.Status)
	}
}

// A store that is open learns of it inside the very batch that would grant.
func TestAnotherServersIdentityHoldsBackTheGrantItself(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	db := superuser(t, c.URL.String())
	for _, sql := range []string{
		"UPDATE dibs.namespaces SET identity = 'another' WHERE ns = $1", "DELETE FROM dibs.namespaces WHERE ns = $1",
	} {
		if _, err := db.Exec(t.Context(), sql, c.Namespace); err != nil {
			t.Fatal(err)
		}
		since := now(t, s)
		for range 2 {
			a, now := acquire(t, s, request("k", time.Second))
			if a.Status != lease.HeldBack || a.Until.Before(since.Add(lease.DefaultTTL)) || a.Until.After(now.Add(lease.DefaultTTL)) {
				t.Errorf("%s at %v: %v until %v at %v", sql, since, a.Status, a.Until, now)
			}
		}
	}
}

// Whatever a caller's pool is set to, its operations are durable and mean the same.
func TestStoreOverACallersPool(t *testing.T) {
	testsize.Repeats(t)
	t.Parallel()
	modes := []string{"simple_protocol", "exec", "cache_statement"}
	if testing.Short() {
		modes = modes[:1] // the farthest from what our own pool does
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			storetest.RunAgain(t, func(ctx context.Context, c store.Config) (*store.Store, error) {
				q := c.URL.Query()
				q.Set("default_query_exec_mode", mode)
				q.Set("synchronous_commit", "off")
				c.URL.RawQuery = q.Encode()
				pool, err := pgxpool.New(ctx, c.URL.String())
				if err != nil {
					return nil, err
				}
				s, err := New(ctx, pool, c)
				if err != nil {
					pool.Close()
					return nil, err
				}
				ours := s.Close
				s.Close = func() error { err := ours(); pool.Close(); return err }
				return s, nil
			}, database(t, testserver.Postgres(t)))
		})
	}
}

// Holds: promise 28.
func TestAnInstallationIDIsNoPath(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	pool, err := pgxpool.New(t.Context(), c.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	storetest.AnInstallationIDIsNoPath(t, OpenConfig, c, func(id string) {
		if _, err := pool.Exec(t.Context(), "UPDATE dibs.namespaces SET installation = $2 WHERE ns = $1", c.Namespace, id); err != nil {
			t.Fatal(err)
		}
	})
}
