//go:build !linux

package file

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dibs-run/dibs/store"
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

// Open is refused here: whether a lock is held can be asked without taking it only where there
// are locks of open file descriptions, and inheriting one is what this store stands on.
func Open(_ context.Context, c store.Config) (*store.Store, error) {
	return nil, fmt.Errorf("store %s: the embedded directory needs Linux; use a server as the store: %w", c, errors.ErrUnsupported)
}
