//go:build linux

package file

import (
	"context"
	"fmt"
	"testing"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Of more kinds than a fetch looks at, it draws those of its own queue, each in its turn, however many sub-queues of
// other queues were made before them and after them.
// Holds: promise 26.
func TestEachKindOfAQueueHasItsTurn(t *testing.T) {
	s := openAt(t, t.TempDir())
	d := inside(s)
	const kinds, others = 3 * mostLooked / 2, 100 * mostLooked
	add := func(b *txn, queue, kind string) error {
		var id int64
		return b.scan("subqueue_id", []any{queue, kind}, &id)
	}
	err := d.step(t.Context(), func(b *txn) error {
		for i := range 2*others + kinds {
			queue := fmt.Sprint("other", i)
			if i >= others && i < others+kinds {
				queue = "q"
			}
			if err := add(b, queue, fmt.Sprint("kind", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	busy := make([]task.Spec, 2*mostLooked) // more sub-queues have tasks than a fetch looks at
	for i := range busy {
		busy[i] = task.Spec{Queue: fmt.Sprint("busy", i), Kind: "k", Args: []byte("{}")}
	}
	if _, err := s.Queue.Enqueue(t.Context(), busy); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 40 {
		err := d.step(context.Background(), func(b *txn) error {
			all, err := (&fetch{txn: b, looked: mostLooked, r: driver.FetchRequest{Queues: []string{"q"}}}).allSubQueues("q")
			for _, l := range all {
				seen[l.kind] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != kinds {
		t.Errorf("%d of %d kinds were looked at", len(seen), kinds)
	}
}
