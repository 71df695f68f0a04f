package applied

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
)

// ErrShared is wrapped if others than root and the user who runs dibs may write to a directory of records or copies,
// or replace it.
var ErrShared = errors.New("others may write there")

// private refuses a directory or a file whose contents another user than root and this one decides. Package beneath
// lets a group share a directory; what is here decides which commands run.
func private(st unix.Stat_t, path string) error {
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it belongs to user %d; let root or yourself own it", ErrShared, st.Uid)}
	case st.Mode&0o022 != 0:
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: its group or everybody may; name another directory, or chmod go-w", ErrShared)}
	}
	return nil
}

// readPrivate reads a file that only root or this user may have written.
func readPrivate(d *beneath.Dir, name string, most int64) ([]byte, error) {
	f, err := d.OpenFile(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: d.Join(name), Err: err}
	}
	if err := private(st, d.Join(name)); err != nil {
		return nil, err
	}
	return beneath.ReadAll(f, most)
}
