//go:build linux

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/lease"
)

// The names of what is in the directory. SQLite adds to that of the database.
const (
	hostName      = "host.json"
	nsName        = "ns"
	namespaceName = "namespace.json"
	lockName      = "requests.lock"
	leasesName    = "leases"
	requestSuffix = ".req"
	journalName   = "journal.jsonl"
	chapterPrefix = "journal-"
	chapterSuffix = ".jsonl"
	badName       = "journal.bad"
	databaseName  = "dibs.db"
)

// places are the opened directories of a namespace. Everything in them is opened relative to them: other users of a
// shared directory may have put anything there under any name (package beneath).
type places struct {
	own, leases *beneath.Dir
}

// held keeps opened directories for as long as the path leads to them.
type held struct {
	mu sync.Mutex
	at *places
}

// places opens the directories, or returns those that are open, unless others are in their place.
func (d *dir) places() (*places, error) {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	if d.held.at != nil && d.held.at.leases.Current() {
		return d.held.at, nil
	}
	d.held.at = nil
	root, err := beneath.Open(d.root)
	if err != nil {
		return nil, err
	}
	p, err := d.placesIn(root, (*beneath.Dir).Sub)
	if err == nil {
		d.held.at = p
	}
	return p, err
}

// placesIn opens or makes them.
func (d *dir) placesIn(root *beneath.Dir, open func(*beneath.Dir, string) (*beneath.Dir, error)) (*places, error) {
	ns, err := open(root, nsName)
	if err != nil {
		return nil, err
	}
	own, err := open(ns, d.name)
	if err != nil {
		return nil, err
	}
	leases, err := open(own, leasesName)
	return &places{own, leases}, err
}

// own is the namespace's directory.
func (d *dir) own() (*beneath.Dir, error) {
	p, err := d.places()
	if err != nil {
		return nil, err
	}
	return p.own, nil
}

// A seat is one file's place: a name in an opened directory.
type seat struct {
	in   *beneath.Dir
	name string
}

func (s seat) String() string { return s.in.Join(s.name) }

func (s seat) open(flags int) (int, error) { return s.in.Open(s.name, flags) }

func (s seat) same(fd int) (bool, error) { return s.in.Same(fd, s.name) }

func (s seat) remove() error { return s.in.Remove(s.name) }

// requests is the file with requests to the holder.
func (s seat) requests() seat { return seat{s.in, s.name + requestSuffix} }

// seat is the place of a key's lock file.
func (l *leases) seat(k lease.Key) (seat, error) {
	p, err := l.dir.places()
	if err != nil {
		return seat{}, err
	}
	return seat{p.leases, lockFile(k)}, nil
}

// openLock opens a lock file twice: to write the record, and to hold the lock. The second can only be read: a command
// inherits it, and must not be able to write a record with it.
func (s seat) openLock() (fd, lock int, err error) {
	fd, err = s.open(unix.O_RDWR | unix.O_CREAT)
	if err != nil {
		return -1, -1, err
	}
	if lock, err = s.open(unix.O_RDONLY); err == nil {
		var same bool
		if same, err = sameFile(fd, lock); err == nil && same {
			return fd, lock, nil
		}
		closeFD(lock)
	}
	closeFD(fd)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = errMoved
	}
	return -1, -1, err
}

// errMoved says that another file took the place of one while it was being opened.
var errMoved = errors.New("the file was replaced meanwhile")

func sameFile(a, b int) (bool, error) {
	var x, y unix.Stat_t
	if err := errors.Join(unix.Fstat(a, &x), unix.Fstat(b, &y)); err != nil {
		return false, fmt.Errorf("fstat: %w", err)
	}
	return x.Ino == y.Ino && x.Dev == y.Dev, nil
}
