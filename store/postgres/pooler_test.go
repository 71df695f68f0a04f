package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
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

// The suite through pgbouncer in transaction mode, with an address that says nothing of it.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	storetest.RunAgain(t, OpenConfig, testserver.StartPgBouncer(t, database(t, testserver.Postgres(t))).URL)
}

// with is an address with one more parameter.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Transactions of the caller's join through a pooler as well, where the caller's own pool keeps no prepared
// statements.
func TestTransactionsBehindAPooler(t *testing.T) {
	t.Parallel()
	through := with(t, testserver.StartPgBouncer(t, database(t, testserver.Postgres(t))).URL, "default_query_exec_mode", "exec")
	for name, connect := range callers {
		t.Run(name, func(t *testing.T) {
			storetest.RunTransactions(t, OpenConfig, through, storetest.Caller{Connect: func(t testing.TB, _ *store.Store, c store.Config) storetest.Begin {
				begin := connect(t, c)
				return func(ctx context.Context) (storetest.Transaction, error) { return begin(ctx, "") }
			}})
		})
	}
}

// Many processes at once, each new and gone soon, as dibs run is: their statements meet in the same few sessions.
func TestManyProcessesBehindAPooler(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.StartPgBouncer(t, testserver.Postgres(t)).URL)
	open(t, c)
	c.Init = false
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			s, err := OpenConfig(context.Background(), c)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for n := range 5 {
				key := lease.Key(fmt.Sprint("k", i, n))
				r, err := s.Leases.Acquire(context.Background(), []lease.AcquireRequest{{Key: key, TTL: 15 * time.Second, Holder: lease.Holder{ID: lease.NewNonce()}}})
				if err != nil || r.Answers[0].Status != lease.OK {
					t.Errorf("acquire: %+v %v", r.Answers, err)
					return
				}
				if _, err := s.Leases.Release(context.Background(), []lease.Ref{r.Answers[0].Record.Ref()}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Nothing that belongs to a session is left in one of the pooler's: whoever comes next has the server's own settings,
// and nobody listens there.
func TestNothingIsLeftInAPoolersSessions(t *testing.T) {
	t.Parallel()
	direct := testserver.StartPostgres(t)
	through := testserver.StartPgBouncer(t, direct.URL)
	c := config(t, through.URL)
	s := open(t, c)
	if s.Notify != nil {
		t.Error("it says that it tells of releases")
	}
	if signs, err := s.Queue.Watch(t.Context(), []string{"q"}); signs != nil || err != nil {
		t.Errorf("it says that it tells of tasks: %v", err)
	}
	if !strings.Contains(strings.Join(s.Properties.Weaker, " "), "pooler") || len(s.Properties.Flaws) > 0 {
		t.Errorf("what it says of itself: %q, flaws %v", s.Properties.Weaker, s.Properties.Flaws)
	}
	grant(t, s, "k")
	cfg, err := pgx.ParseConfig(through.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	for range 20 { // some of them in each session that there is
		var scan, prepared, listens string
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.QueryRow(t.Context(), `SELECT current_setting('enable_seqscan'), (SELECT count(*)::text FROM pg_prepared_statements),
			(SELECT count(*)::text FROM pg_listening_channels())`).Scan(&scan, &prepared, &listens)
		if err != nil || scan != "on" || prepared != "0" || listens != "0" {
			t.Errorf("enable_seqscan %s, %s prepared statements, %s channels, %v", scan, prepared, listens, err)
		}
		_ = conn.Close(t.Context())
	}
}

func TestSessionLocksBehindAPoolerAreRefused(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.StartPgBouncer(t, testserver.Postgres(t)).URL)
	c.Session = true
	if _, err := OpenConfig(t.Context(), c); err == nil || !strings.Contains(err.Error(), "pooler") || !strings.Contains(err.Error(), "lock=session") {
		t.Errorf("refused with %v", err)
	}
}

// A caller's pool that keeps prepared statements is not ours to change: the store says what is wrong and what to do.
func TestACallersPoolBehindAPooler(t *testing.T) {
	t.Parallel()
	address := testserver.StartPgBouncer(t, testserver.Postgres(t)).URL
	for mode, flaws := range map[string]int{"cache_statement": 1, "exec": 0, "cache_describe": 0, "simple_protocol": 0} {
		pool, err := pgxpool.New(t.Context(), with(t, address, "default_query_exec_mode", mode))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		c := config(t, address)
		s, err := New(t.Context(), pool, c)
		if err != nil && mode != "cache_statement" {
			t.Fatalf("%s: %v", mode, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
				t.Errorf("%s: %v", mode, err)
			}
			continue
		}
		defer s.Close()
		if len(s.Properties.Flaws) != flaws || flaws > 0 && !strings.Contains(s.Properties.Flaws[0].Cure, "exec") {
			t.Errorf("%s: flaws %+v", mode, s.Properties.Flaws)
		}
	}
}
