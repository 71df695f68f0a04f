//go:build linux

package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// A journal keeps the ended runs that have no tick, one line of JSON each, until somebody
// asks for history: opening a database would cost such a run more than all the rest of it.
//
// Writers append under a shared lock. A reader first renames the file, so that nobody begins to
// write to it any more, then locks it exclusively, so that nobody is still writing, and removes
// it when the database has its lines. No writer ever waits for a reader.
type journal struct {
	dir        *dir
	path       string
	unreadable *unreadable
}

func newJournal(d *dir) *journal {
	return &journal{dir: d, path: filepath.Join(d.path, journalName), unreadable: new(unreadable)}
}

// append writes one run. It waits for nobody, since all leases of this process stand behind l.mu: while somebody has
// the journal locked, a reader that takes it away in a moment, or any process that shares the directory, it says
// errStopped. Each line begins with the newline: a line that was cut short by a full disk does not swallow the next
// one.
func (j *journal) append(r run.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal of runs: %w", err)
	}
	ok, err := j.tryAppend(append(append([]byte{'\n'}, text...), '\n'))
	if err == nil && !ok {
		err = errStopped
	}
	return fail("append to", j.path, err)
}

// unkept repeats do, without l.mu in between, while it says errStopped.
func unkept(ctx context.Context, do func() error) (err error) {
	done, _ := patiently(ctx, patience, func() (bool, error) {
		err = do()
		return !errors.Is(err, errStopped), nil
	})
	if !done {
		err = cmp.Or(ctx.Err(), err)
	}
	return err
}

func (j *journal) tryAppend(line []byte) (done bool, err error) {
	own, err := j.dir.own()
	if err != nil {
		return false, err
	}
	fd, err := own.Open(journalName, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT)
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	// Only a file that was renamed is ever locked exclusively: that one is not ours to write to.
	if ok, err := tryFlock(fd, unix.LOCK_SH); err != nil || !ok {
		return false, err
	}
	if same, err := own.Same(fd, journalName); err != nil || !same {
		return false, err
	}
	n, err := unix.Write(fd, line)
	if err == nil && n < len(line) {
		err = unix.ENOSPC
	}
	return err == nil, err
}

// A chapter is a piece of the journal to which nobody writes any more.
type chapter struct {
	at   seat
	runs []run.Record
	bad  [][]byte
	fd   int
	// whole says that no writer was still at work: only then may the chapter be removed.
	whole bool
}

// close removes the chapter, if it may go, and lets go of it.
func (c *chapter) close(imported bool) {
	if imported && c.whole {
		_ = c.at.remove()
	}
	unlock(c.fd)
	closeFD(c.fd)
}

// pending says whether there is anything to import.
func (j *journal) pending() (bool, error) {
	own, err := j.dir.own()
	if err != nil {
		return false, err
	}
	all, err := chapters(own)
	if err != nil || len(all) > 0 {
		return len(all) > 0, err
	}
	st, err := own.Stat(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && st.Size > 0, err
}

// chapters are the files that were renamed and not yet removed. Their order does not matter: a run's own report wins
// over what others conclude, whichever is read first.
func chapters(own *beneath.Dir) ([]seat, error) {
	names, err := own.Names()
	sort.Strings(names)
	var all []seat
	for _, name := range names {
		if strings.HasPrefix(name, chapterPrefix) && strings.HasSuffix(name, chapterSuffix) {
			all = append(all, seat{own, name})
		}
	}
	return all, err
}

// take ends the present chapter and reads all there are. Close each.
func (j *journal) take() ([]*chapter, error) {
	own, err := j.dir.own()
	if err != nil {
		return nil, err
	}
	next := chapterPrefix + lease.NewNonce().String() + chapterSuffix
	if err := own.Rename(journalName, next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	there, err := chapters(own)
	if err != nil {
		return nil, err
	}
	var all []*chapter
	for _, at := range there {
		c, err := readChapter(at)
		if errors.Is(err, fs.ErrNotExist) { // another reader was faster
			continue
		}
		if err != nil && j.unreadable.stepOver(at.String(), err) == nil {
			continue
		}
		if err != nil {
			closeAll(all, false)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func closeAll(all []*chapter, imported bool) {
	for _, c := range all {
		c.close(imported)
	}
}

// mostJournal bounds what is read of a chapter: some half a million runs. Other users of a shared directory can make
// one of any size.
const mostJournal = 256 << 20

func readChapter(at seat) (*chapter, error) {
	fd, err := at.open(unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	c := &chapter{at: at, fd: fd}
	// A writer that is stopped in the middle keeps its chapter for a later time.
	if c.whole, err = tryFlock(fd, unix.LOCK_EX); err != nil {
		c.close(false)
		return nil, err
	}
	text, err := readAll(fd, at.String(), mostJournal)
	if err != nil {
		c.close(false)
		return nil, err
	}
	c.parse(text)
	return c, nil
}

// parse sorts the lines. One that does not read as an ended run, as a loss of power can
// leave one, is set aside; it spoils no other.
func (c *chapter) parse(text []byte) {
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if len(line) == 0 {
			continue
		}
		var r run.Record
		if err := json.Unmarshal(line, &r); err == nil && r.ID != "" && r.Outcome.Valid() {
			c.runs = append(c.runs, r)
		} else {
			c.bad = append(c.bad, line)
		}
	}
}

// setAside keeps unreadable lines for a person to look at.
func (j *journal) setAside(bad [][]byte) error {
	own, err := j.dir.own()
	if err != nil {
		return err
	}
	f, err := own.OpenFile(badName, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Join(bad, []byte{'\n'}), '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (j *journal) badPath() string { return filepath.Join(j.dir.path, badName) }

// size is that of the journal that is being written.
func (j *journal) size() int64 {
	own, err := j.dir.own()
	if err != nil {
		return 0
	}
	st, err := own.Stat(journalName)
	if err != nil {
		return 0
	}
	return st.Size
}
