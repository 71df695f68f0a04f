package all_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/task"
)

// What docs/reference/queue.md says in Go is in this file, so that it compiles. TestTheQueuesPageCompiles
// compares the two.

type (
	Order struct{ ID int }
	Mail  struct{ To string }
)

var invoice = queue.Define[Order]("invoice")

func send(context.Context, Mail) error          { return nil }
func alert(kind string, id task.ID, err string) {}

func placeOrder(ctx context.Context, pool *pgxpool.Pool, o Order) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", o.ID); err != nil {
		return err
	}
	spec := invoice.Spec(o)
	spec.Unique = &queue.Unique{Key: fmt.Sprint("order-", o.ID)}
	if _, err := queue.EnqueueIn(ctx, postgres.QueueTx(tx, "dibs"), spec); err != nil {
		return err // with queue.ErrUndecided too: nothing was taken in, so roll back and try again later
	}
	return tx.Commit(ctx) // the order and its task, or neither
}

func completes(mux *queue.Mux, db *sql.DB, st *store.Store) {
	invoice.Handle(mux, func(ctx context.Context, r *queue.Run, o Order) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		// … the work, in tx …
		if err := r.Complete(ctx, file.QueueTx(tx, st)); err != nil {
			return err
		}
		return tx.Commit() // the work and its completion, or neither
	}, queue.Handler{})
}

var Welcome = queue.Define[Mail]("welcome")

func works(ctx context.Context, st *store.Store, keeper *lease.Keeper) error {
	mux := &queue.Mux{}
	Welcome.Handle(mux, func(ctx context.Context, r *queue.Run, m Mail) error { return send(ctx, m) }, queue.Handler{Timeout: time.Minute})
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: keeper, Mux: mux, Slots: 20, Log: slog.Default()})
	if err != nil {
		return err
	}
	return worker.Run(ctx) // until ctx ends; then gracefully
}

func listens(st *store.Store, keeper *lease.Keeper, mux *queue.Mux) (*queue.Worker, error) {
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: keeper, Mux: mux, Listen: func(h queue.Happening) {
		if h.On == queue.TaskFailed {
			alert(h.Kind, h.Task.ID, h.Error)
		}
	}})
	return worker, err
}

var _ = []any{placeOrder, completes, works, listens}

func TestTheQueuesPageCompiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/queue.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("queuepage_test.go")
	if err != nil {
		t.Fatal(err)
	}
	have, blocks := plain(string(code)), 0
	for _, part := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks++
		for _, piece := range strings.Split(block, "\n\n") { // definitions and statements may stand apart here
			if !strings.Contains(have, plain(piece)) {
				t.Errorf("this is in docs/reference/queue.md, and not in this file:\n%s", piece)
			}
		}
	}
	if blocks != 4 {
		t.Errorf("%d pieces of Go in docs/reference/queue.md", blocks)
	}
}

// plain is text without what its place in a file makes of it.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
