//go:build linux

package file

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-run/dibs/internal/beneath"
)

// SQLite's processes share memory through the database's -shm file, which each of them maps. Any process that may
// write there can truncate the file. The mapping is then longer than the file, and a read of the missing part faults.
// SQLite as translated to Go makes that an error of the statement, and of every later one: a process keeps its
// mapping until its last connection to the file is closed.
//
// So all connections of this process are closed then, and the next caller that needs the database opens it anew. If
// the file is empty, that makes the memory again out of the log, under the writers' lock. If a part of the file is
// left, it is emptied first: SQLite would take its beginning for that of a whole one, and not find what the rest had
// told of. Making the file longer would not do: a writer in the middle of a transaction would go on in memory that
// knows of nothing before it.

// isTorn says whether err means that shared memory ended under a statement.
func isTorn(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_IN_PAGE
}

// opened are a namespace's databases that this process has open, one for each Open. The zero value is usable.
type opened struct {
	mu   sync.Mutex
	dbs  map[*db]bool
	torn int
	// shm is the file that was emptied, 0 if there was none. It stays open: SQLite's locks are on this file, and this
	// process would lose them with the first descriptor that it closes.
	shm int
}

func (o *opened) add(s *db) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dbs == nil {
		o.dbs = map[*db]bool{}
	}
	o.dbs[s] = true
}

func (o *opened) remove(s *db) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.dbs, s)
}

// times is how often the memory was torn.
func (o *opened) times() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.torn
}

// renew empties the file, and then closes all connections but an application's own, which close by themselves
// (orderlyConn). The order matters: a process that opens the database in between must find no part of the file.
func (o *opened) renew(own *beneath.Dir) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.torn++
	o.empty(own)
	for s := range o.dbs {
		_ = s.drop()
	}
}

func (o *opened) empty(own *beneath.Dir) {
	const name = databaseName + "-shm"
	if same, err := own.Same(o.shm, name); o.shm == 0 || err == nil && !same {
		fd, err := own.Open(name, unix.O_RDWR)
		if err != nil {
			return // it is gone, or not dibs's, and whoever opens the database next says so
		}
		if o.shm != 0 {
			closeFD(o.shm)
		}
		o.shm = fd
	}
	// SQLite makes it in whole regions. A whole one is in use by processes that made it anew meanwhile. Emptying that
	// would make them begin again, and they in turn this process, for ever.
	var st unix.Stat_t
	if err := unix.Fstat(o.shm, &st); err == nil && st.Size%sqlite3.WALINDEX_PGSZ != 0 {
		_ = unix.Ftruncate(o.shm, 0) // else it is as it was
	}
}

// fail is fail for the database. After torn memory the next caller that needs the database mostly finds it whole
// again; while others still use connections from before, callers get the same error. Call it with s.mu free.
func (s *db) fail(what string, err error) error {
	if isTorn(err) {
		if own, err := s.dir.own(); err == nil {
			s.leases.opened.renew(own)
		}
	}
	return fail(what, s.path, err)
}
