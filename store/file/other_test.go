//go:build !linux

package file

import (
	"errors"
	"testing"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// Where there is no directory, whoever wants its database is told what it would need.
func TestNothingIsOpenedHere(t *testing.T) {
	if _, err := OpenDB(t.Context(), &store.Store{URL: "file:///d"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("OpenDB: %v", err)
	}
	if _, err := QueueTx(nil, &store.Store{}).Enqueue(t.Context(), []task.Spec{{}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Enqueue: %v", err)
	}
}
