//go:build linux

package file

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-run/dibs/history"
)

// journalNaming is a rollback journal of a database which changes nothing, and names a super-journal. SQLite
// opens what is named, wherever that is.
func journalNaming(t *testing.T, database, super string) []byte {
	t.Helper()
	db, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	const magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
	pageSize := uint32(binary.BigEndian.Uint16(db[16:]))
	number := binary.BigEndian.AppendUint32
	j := []byte(magic)
	for _, n := range []uint32{0, 1, uint32(len(db)) / pageSize, 512, pageSize} {
		j = number(j, n)
	}
	j = append(j, make([]byte, 512-len(j))...)
	j = append(number(j, 1<<30/pageSize+1), super...)
	var sum uint32
	for _, c := range []byte(super) {
		sum += uint32(int32(int8(c)))
	}
	return append(number(number(j, uint32(len(super))), sum), magic...)
}

// Fault: a rollback journal that a member planted named a FIFO as the journal of several databases, and whoever
// opened the database next, root too, waited for ever.
func TestAPlantedJournalNamesNothingToOpen(t *testing.T) {
	path := t.TempDir()
	fresh(t, path)
	s := openAt(t, path)
	told := func() error {
		return s.History.Append(context.Background(), []history.Event{{Kind: "test"}})
	}
	if err := told(); err != nil {
		t.Fatal(err)
	}
	database := inside(s).path
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	super := filepath.Join(t.TempDir(), "x-mj0123459AB") // as SQLite names them
	if err := unix.Mkfifo(super, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(database+"-journal", journalNaming(t, database, super), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	done := make(chan error, 1)
	go func() { done <- told() }()
	select {
	case <-done: // be it with an error
	case <-time.After(30 * time.Second):
		t.Error("it waits for the FIFO")
		go func() { _ = os.WriteFile(super, nil, 0o600) }() // lets it go on
		<-done
	}
}

// Fault: a member who puts a FIFO in the place of a file, between the look at it and its opening, had whoever
// opens it to read wait for ever. Here nobody looks before, as if the member had won the race.
func TestAFIFOInTheLastMomentIsNotWaitedFor(t *testing.T) {
	path := t.TempDir()
	s := openAt(t, path)
	if err := s.History.Append(t.Context(), []history.Event{{Kind: "test"}}); err != nil {
		t.Fatal(err)
	}
	held := inside(s).at.Load()
	for _, flags := range []int32{
		sqlite3.SQLITE_OPEN_READONLY | sqlite3.SQLITE_OPEN_MAIN_JOURNAL, // as a hot journal is looked into
		sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_WAL,
		sqlite3.SQLITE_OPEN_READONLY | sqlite3.SQLITE_OPEN_MAIN_DB,
	} {
		const name = "planted"
		fifo := filepath.Join(filepath.Dir(inside(s).path), name)
		_ = os.Remove(fifo)
		if err := unix.Mkfifo(fifo, 0o666); err != nil {
			t.Fatal(err)
		}
		done := make(chan int32, 1)
		go func() { done <- openedUnseen(held.At()+"/"+name, flags) }()
		select {
		case rc := <-done:
			if rc&0xff != sqlite3.SQLITE_CANTOPEN {
				t.Errorf("flags %#x: SQLite answers %d", flags, rc)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("flags %#x: it waits for the FIFO", flags)
			go func() { _ = os.WriteFile(fifo, nil, 0o600) }() // lets it go on
			<-done
		}
	}
	// An application's own file is opened as ever, be it by a link.
	own := filepath.Join(t.TempDir(), "own")
	if err := errors.Join(os.WriteFile(own, nil, 0o600), os.Symlink(own, own+"-link")); err != nil {
		t.Fatal(err)
	}
	app, err := sql.Open("sqlite", own+"-link")
	if err == nil {
		_, err = app.Exec("CREATE TABLE t (x)")
	}
	if err != nil {
		t.Error(err)
	}
	_ = app.Close()
}

// openedUnseen has SQLite's own VFS open a file, past the look that ours takes before.
func openedUnseen(path string, flags int32) int32 {
	tls := libc.NewTLS()
	defer tls.Close()
	name, err := libc.CString(path + "\x00")
	if err != nil {
		return -1
	}
	defer libc.Xfree(tls, name)
	file := libc.Xcalloc(tls, 1, libc.Tsize_t(unixVFS.FszOsFile))
	defer libc.Xfree(tls, file)
	open := unixVFS.FxOpen
	rc := (*(*openFunc)(unsafe.Pointer(&open)))(tls, uintptr(unsafe.Pointer(&dibsVFS)), name, file, flags, 0)
	if methods := (*sqlite3.Tsqlite3_file)(pointer(file)).FpMethods; rc == sqlite3.SQLITE_OK && methods != 0 {
		shut := (*sqlite3.Tsqlite3_io_methods)(pointer(methods)).FxClose
		(*(*func(*libc.TLS, uintptr) int32)(unsafe.Pointer(&shut)))(tls, file)
	}
	return rc
}
