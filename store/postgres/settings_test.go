package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// hostile are settings that change what a statement means, what its answer looks like, or whether it works at all.
var hostile = map[string]string{
	"client_encoding": "LATIN1", "bytea_output": "escape", "standard_conforming_strings": "off", "array_nulls": "off",
	"transform_null_equals": "on", "search_path": "nowhere", "synchronous_commit": "off", "default_transaction_isolation": "serializable",
	"default_transaction_read_only": "on", "default_transaction_deferrable": "on", "plan_cache_mode": "force_custom_plan",
	"enable_seqscan": "on", "enable_nestloop": "off", "enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_bitmapscan": "off",
	"enable_sort": "off", "enable_hashagg": "off", "jit": "on", "jit_above_cost": "0", "work_mem": "64", "lock_timeout": "5s", "statement_timeout": "5s",
	"idle_in_transaction_session_timeout": "5s", "idle_session_timeout": "5s", "datestyle": "SQL, DMY", "intervalstyle": "sql_standard",
	"timezone": "Asia/Kathmandu", "extra_float_digits": "-15", "lc_monetary": "C", "quote_all_identifiers": "on", "backslash_quote": "off",
	"xmlbinary": "hex", "row_security": "off", "client_min_messages": "debug5", "join_collapse_limit": "1", "from_collapse_limit": "1",
	"constraint_exclusion": "off", "default_toast_compression": "pglz", "gin_fuzzy_search_limit": "1", "check_function_bodies": "off",
}

// Whatever a role, a database or a server sets, our own connections and a caller's pool keep text and bytes, and work;
// so do connections behind a pooler and those that prepare nothing.
// Holds: H4.
func TestHostileSettings(t *testing.T) {
	srv := testserver.StartPostgres(t)
	admin, err := pgx.ParseConfig(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name := range hostile { // the one who sets them has none of them
		admin.RuntimeParams[name] = one[string](t, superuser(t, srv.URL), "SELECT reset_val FROM pg_settings WHERE lower(name) = $1", name)
	}
	conn, err := pgx.ConnectConfig(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	database := one[string](t, conn, "SELECT current_database()::text")
	for _, level := range []string{"ROLE " + one[string](t, conn, "SELECT current_user::text"), "DATABASE " + database, "SYSTEM"} {
		for name, value := range hostile {
			exec(fmt.Sprintf("ALTER %s SET %s = %s", level, name, quoted(name, value)))
		}
		if level == "SYSTEM" {
			exec("SELECT pg_reload_conf()")
		}
		for mode, address := range map[string]string{"our own": srv.URL, "exec": srv.URL + "&default_query_exec_mode=exec"} {
			t.Run(level+"/"+mode, func(t *testing.T) { storetest.RunSession(t, OpenConfig, address) })
		}
		t.Run(level+"/pooler", func(t *testing.T) {
			if level != "SYSTEM" { // pgbouncer itself would have these settings, and could not connect
				storetest.RunSession(t, OpenConfig, testserver.StartPgBouncer(t, srv.URL).URL)
			}
		})
		t.Run(level+"/caller's", func(t *testing.T) {
			storetest.RunSession(t, func(ctx context.Context, c store.Config) (*store.Store, error) {
				cfg, err := pgxpool.ParseConfig(srv.URL)
				if err != nil {
					return nil, err
				}
				cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed" // as New asks for
				cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "off"
				pool, err := pgxpool.NewWithConfig(ctx, cfg)
				if err != nil {
					return nil, err
				}
				t.Cleanup(pool.Close)
				return New(ctx, pool, c)
			}, srv.URL)
		})
		exec("ALTER " + level + " RESET ALL")
	}
}

// A server that takes no writes because of a setting is not called a standby: the error names the setting, and where
// to change it, at the opening and later. Our own connections change it themselves.
// Holds: H4.
func TestAReadOnlyDefaultIsNamed(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	c := config(t, database(t, server))
	readOnly := func(value string) {
		t.Helper()
		name := strings.TrimPrefix(c.URL.Path, "/")
		if _, err := superuser(t, server).Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+value); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), c.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	readOnly("on")
	open(t, c)
	pool.Reset()
	named := func(when string, err error) {
		t.Helper()
		if !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "ALTER DATABASE … SET default_transaction_read_only = off") {
			t.Errorf("%s: %v", when, err)
		}
	}
	_, err = s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", TTL: 15 * time.Second, Holder: lease.Holder{ID: lease.NewNonce()}}})
	named("later", err)
	_, err = New(t.Context(), pool, c)
	named("at the opening", err)

	read := c
	read.Init, read.Read = false, true
	if seen, err := New(t.Context(), pool, read); err != nil {
		t.Errorf("a store that only reads: %v", err)
	} else {
		defer seen.Close()
	}
	t.Run("pooler", func(t *testing.T) {
		_, err := OpenConfig(t.Context(), config(t, testserver.StartPgBouncer(t, c.URL.String()).URL))
		named("behind a pooler", err)
	})
}

func quoted(name, value string) string {
	if name == "search_path" || name == "datestyle" {
		return value
	}
	return "'" + value + "'"
}

// A transaction in another encoding is refused, and nothing is done.
func TestATransactionInAnotherEncoding(t *testing.T) {
	address := testserver.Postgres(t)
	c := config(t, address)
	open(t, c)
	conn := superuser(t, address)
	if _, err := conn.Exec(t.Context(), "SET client_encoding = 'LATIN1'"); err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = QueueTx(tx, c.Namespace).Enqueue(t.Context(), []task.Spec{{Queue: "q", Kind: "k", Args: []byte(`"Zoë"`)}})
	if !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("it was not refused: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("the transaction afterwards: %v", err)
	}
}

// The two lists of settings say the same of what matters within a transaction.
func TestSettingsOfATransactionAreThoseOfASession(t *testing.T) {
	session, local := sqlSettings()[0], sqlSettings()[1]
	connection := []string{"default_transaction_isolation", "default_transaction_read_only", "transaction_timeout", "idle_in_transaction_session_timeout",
		"idle_session_timeout", "client_connection_check_interval", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"}
	for _, m := range regexp.MustCompile(`(?m)^ +\('(\w+)', ('[^']*'|CASE)`).FindAllStringSubmatch(session, -1) {
		want := "set_config('" + m[1] + "', " + m[2]
		if strings.Contains(local, want) == slices.Contains(connection, m[1]) {
			t.Errorf("%s is %s in a session: want the same in a transaction, unless it is a connection's", m[1], m[2])
		}
	}
}
