//go:build linux

package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

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
	dir  *dir
	path string
}

func newJournal(d *dir) *journal {
	return &journal{dir: d, path: filepath.Join(d.path, "journal.jsonl")}
}

// append writes one run. Each line begins with the newline: a
// line that was cut short by a full disk does not swallow the next one.
func (j *journal) append(r run.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal of runs: %w", err)
	}
	line := append(append([]byte{'\n'}, text...), '\n')
	for {
		done, err := j.tryAppend(line)
		if done || err != nil {
			return fail("append to", j.path, err)
		}
	}
}

func (j *journal) tryAppend(line []byte) (done bool, err error) {
	fd, err := open(j.path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, j.dir.perm)
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	// Only a file that was renamed is ever locked exclusively: that one is not ours to write to.
	if ok, err := tryFlock(fd, unix.LOCK_SH); err != nil || !ok {
		return false, err
	}
	if same, err := samePath(fd, j.path); err != nil || !same {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Size == 0 {
		if err := widen(j.path, j.dir.perm); err != nil {
			return false, err
		}
	}
	n, err := unix.Write(fd, line)
	if err == nil && n < len(line) {
		err = unix.ENOSPC
	}
	return err == nil, err
}

// A chapter is a piece of the journal that nobody writes to any more.
type chapter struct {
	path string
	runs []run.Record
	bad  [][]byte
	fd   int
	// whole says that no writer was still at work: only then may the chapter be removed.
	whole bool
}

// close removes the chapter, if it may go, and lets go of it.
func (c *chapter) close(imported bool) {
	if imported && c.whole {
		_ = os.Remove(c.path)
	}
	unlock(c.fd)
	closeFD(c.fd)
}

// pending says whether there is anything to read.
func (j *journal) pending() (bool, error) {
	names, err := j.chapters()
	if err != nil || len(names) > 0 {
		return len(names) > 0, err
	}
	st, err := os.Stat(j.path)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil && st.Size() > 0, err
}

// chapters are the files that were renamed and not yet removed, in no matter which order: a
// run's own report wins over what others conclude, whichever is read first.
func (j *journal) chapters() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(j.dir.path), "journal-*.jsonl"))
	sort.Strings(names)
	return names, err
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// take ends the present chapter and reads all there are. Close each.
func (j *journal) take() ([]*chapter, error) {
	next := filepath.Join(j.dir.path, "journal-"+lease.NewNonce().String()+".jsonl")
	if err := os.Rename(j.path, next); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	names, err := j.chapters()
	if err != nil {
		return nil, err
	}
	var all []*chapter
	for _, name := range names {
		c, err := readChapter(name)
		if os.IsNotExist(err) { // another reader was faster
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

func readChapter(path string) (*chapter, error) {
	fd, err := open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	c := &chapter{path: path, fd: fd}
	// A writer that is stopped in the middle keeps its chapter for a later time.
	if c.whole, err = tryFlock(fd, unix.LOCK_EX); err != nil {
		c.close(false)
		return nil, err
	}
	text, err := preadAll(fd)
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
	f, err := os.OpenFile(j.badPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, j.dir.perm)
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Join(bad, []byte{'\n'}), '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (j *journal) badPath() string { return filepath.Join(j.dir.path, "journal.bad") }

// size is that of the journal that is being written.
func (j *journal) size() int64 {
	st, err := os.Stat(j.path)
	if err != nil {
		return 0
	}
	return st.Size()
}
