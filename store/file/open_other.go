//go:build !linux

package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A Directory is what is there at a path.
type Directory struct {
	Path, ID string
	UID      int
	Mode     os.FileMode
	SharedFS string
}

// Inspect is refused here, as Open is.
func Inspect(path string) (Directory, error) {
	return Directory{Path: path}, fmt.Errorf("directory %s: %w", path, errors.ErrUnsupported)
}

// OpenConfig is refused here. This store needs locks of open file descriptions: only they can be asked about without
// being taken, and inherited.
func OpenConfig(_ context.Context, c store.Config) (*store.Store, error) {
	return nil, needsLinux(c.String())
}

func needsLinux(address string) error {
	return fmt.Errorf("store %s: the embedded directory needs Linux; use a server as the store: %w", address, errors.ErrUnsupported)
}

// OpenDB is refused here, as Open is.
func OpenDB(_ context.Context, s *store.Store, _ ...string) (*sql.DB, error) {
	return nil, needsLinux(s.URL)
}

// Tx refuses everything here.
type Tx struct{ address string }

// QueueTx makes one.
func QueueTx(_ *sql.Tx, s *store.Store) *Tx { return &Tx{s.URL} }

// Enqueue is of driver.Inserter.
func (x *Tx) Enqueue(context.Context, []task.Spec) ([]task.Enqueued, error) {
	return nil, needsLinux(x.address)
}

// Finish is of driver.Finisher.
func (x *Tx) Finish(context.Context, lease.Ref, []driver.Completion) ([]driver.Status, error) {
	return nil, needsLinux(x.address)
}
