//go:build linux

package file_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/file"
)

// An order and the task to send its invoice are there together, or neither is.
func ExampleQueueTx() {
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := shop(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// enqueued
	// duplicate
}

func shop(ctx context.Context, dir string) error {
	c, err := store.Parse(dir)
	if err != nil {
		return err
	}
	st, err := file.OpenConfig(ctx, c)
	if err != nil {
		return err
	}
	defer st.Close()
	db, err := file.OpenDB(ctx, st, "_pragma=foreign_keys(1)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)"); err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (7)"); err != nil {
		return err
	}
	invoice := queue.Spec{Kind: "invoice", Args: []byte(`{"order": 7}`), Unique: &queue.Unique{Key: "order-7"}}
	answers, err := queue.EnqueueIn(ctx, file.QueueTx(tx, st), invoice, invoice)
	if err != nil {
		return err
	}
	for _, a := range answers {
		fmt.Println(a.Answer)
	}
	return tx.Commit()
}
