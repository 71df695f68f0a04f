// Package spool keeps on this host's disk what a store could not be told, until any later dibs on
// this host delivers it (rule T9).
package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/scheduler"
)

// A Spool is one file of JSON lines per store, NAME.jsonl in DIR/spool. While it is delivered there are
// also NAME.jsonl.lock, NAME.jsonl.aside and NAME.jsonl.aside.new. It is safe for concurrent use by many
// processes. Others may share the directory, so everything is opened beneath it.
type Spool struct{ dir, name string }

var _ scheduler.Spool = Spool{}

// In is the spool in dir for the store with the given installation id and namespace.
func In(dir, installation, namespace string) Spool {
	return Spool{dir, Name(installation, namespace) + suffix}
}

// Name is what a Backlog calls the store with an installation id and a namespace.
func Name(installation, namespace string) string {
	return beneath.FileName(installation + "-" + namespace)
}

const (
	folder = "spool"
	suffix = ".jsonl"
)

// open opens the spool's directory; its error wraps fs.ErrNotExist where there is none.
func (s Spool) open() (*beneath.Dir, error) {
	d, err := beneath.Open(s.dir)
	if err == nil {
		d, err = d.Sub(folder)
	}
	return d, wrap(err)
}

// make is open, and makes it where there is none, as open as the host's directory is.
func (s Spool) make() (*beneath.Dir, error) {
	d, _, err := beneath.Make(s.dir)
	if err == nil {
		d, err = d.MakeSub(folder)
	}
	return d, wrap(err)
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spool: %w", err)
}

// most bounds the file where it holds no more than that ticks could not be claimed: about 100,000
// of them. Beyond it they settle as missed. An outcome is kept whatever the size.
const most = 16 << 20

// ErrFull is returned for a tick that was not claimed when there are too many of them already.
var ErrFull = errors.New("spool: full: the store has been away for too long")

// Put appends an item and returns once it is on the disk.
func (s Spool) Put(i scheduler.Item) error { return s.put(i) }

// put appends items, all of them at once.
func (s Spool) put(all ...scheduler.Item) error {
	if len(all) == 0 {
		return nil
	}
	var text []byte
	dear := false
	for _, i := range all {
		line, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		text, dear = append(append(text, line...), '\n'), dear || i.Close != nil
	}
	d, err := s.make()
	if err != nil {
		return err
	}
	f, err := s.append(d)
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if !dear && before.Size() > most {
		return ErrFull
	}
	// One write: a line is never mixed with another's. A torn last line, of a full disk or lost
	// power, is closed off by the newline in front.
	if _, err := f.Write(append([]byte{'\n'}, text...)); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if before.Size() == 0 { // the file is new, and so may be its directory
		return errors.Join(wrap(d.Sync()), s.syncHost())
	}
	return nil
}

// append opens the file for writing, under a lock that says that a writer is at it.
func (s Spool) append(d *beneath.Dir) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		f, err := locked(d, s.name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, unix.LOCK_SH)
		if err == nil {
			same, err := d.Same(int(f.Fd()), s.name)
			if same && err == nil {
				return f, nil
			}
			f.Close() // it was set aside before we had the lock
			if err != nil {
				return nil, wrap(err)
			}
		} else if !errors.Is(err, unix.EWOULDBLOCK) { // a delivery has locked it, and set it aside
			return nil, err
		}
		if time.Now().After(end) {
			return nil, errLocked(d.Join(s.name))
		}
	}
}

// patience is how long to wait for a lock. Locks are held for moments only, unless another process that shares the
// directory keeps one.
const patience = 2 * time.Second

func errLocked(path string) error {
	return fmt.Errorf("spool %s: another process has locked it for seconds; look for a stopped one (state T in ps)", path)
}

// locked opens a file under a lock, for which it does not wait: then the error is unix.EWOULDBLOCK.
func locked(d *beneath.Dir, name string, flag, lock int) (*os.File, error) {
	f, err := d.OpenFile(name, flag)
	if err != nil {
		return nil, wrap(err)
	}
	if err := unix.Flock(int(f.Fd()), lock|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool %s: %w", d.Join(name), err)
	}
	return f, nil
}

// syncHost has the name of the spool's directory on the disk.
func (s Spool) syncHost() error {
	d, err := beneath.Open(s.dir)
	if err == nil {
		err = d.Sync()
	}
	return wrap(err)
}
