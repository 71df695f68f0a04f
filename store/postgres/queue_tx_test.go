package postgres

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

func TestTransactions(t *testing.T) {
	t.Parallel()
	for name, connect := range callers {
		t.Run(name, func(t *testing.T) {
			storetest.RunTransactions(t, OpenConfig, testserver.Postgres(t), storetest.Caller{Connect: func(t testing.TB, _ *store.Store, c store.Config) storetest.Begin {
				begin := connect(t, c)
				return func(ctx context.Context) (storetest.Transaction, error) { return begin(ctx, "") }
			}})
		})
	}
}

// callers begin transactions of the server's level, where none is named.
var callers = map[string]func(testing.TB, store.Config) func(ctx context.Context, level string) (storetest.Transaction, error){
	"pgx": func(t testing.TB, c store.Config) func(context.Context, string) (storetest.Transaction, error) {
		pool, err := pgxpool.New(context.Background(), c.URL.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return func(ctx context.Context, level string) (storetest.Transaction, error) {
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			return storetest.Transaction{
				Queue: QueueTx(tx, c.Namespace),
				Exec:  func(ctx context.Context, statement string) error { _, err := tx.Exec(ctx, statement); return err },
				Count: func(ctx context.Context, query string) (n int, err error) {
					err = tx.QueryRow(ctx, query).Scan(&n)
					return n, err
				},
				Commit:   func(ctx context.Context) error { return tx.Commit(ctx) },
				Rollback: func(ctx context.Context) error { return tx.Rollback(ctx) },
			}, err
		}
	},
	"database/sql": func(t testing.TB, c store.Config) func(context.Context, string) (storetest.Transaction, error) {
		db, err := sql.Open("pgx", c.URL.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return func(ctx context.Context, level string) (storetest.Transaction, error) {
			o := sql.TxOptions{}
			if level != "" {
				o.Isolation = sql.LevelSerializable
			}
			tx, err := db.BeginTx(ctx, &o)
			return storetest.SQL(tx, QueueSQL(tx, c.Namespace)), err
		}
	},
}

// Holds: promise 22.
func TestTransactionsOfOtherLevelsAreRefused(t *testing.T) {
	t.Parallel()
	for name, connect := range callers {
		t.Run(name, func(t *testing.T) {
			c := config(t, testserver.Postgres(t))
			open(t, c)
			x, err := connect(t, c)(t.Context(), "serializable")
			if err != nil {
				t.Fatal(err)
			}
			defer x.Rollback(t.Context())
			if _, err := x.Queue.Enqueue(t.Context(), []task.Spec{spec()}); !errors.Is(err, ErrIsolation) {
				t.Errorf("serializable: %v", err)
			}
			if n, err := x.Count(t.Context(), "SELECT 1"); n != 1 || err != nil {
				t.Errorf("the transaction is of no use any more: %v", err)
			}
		})
	}
}
