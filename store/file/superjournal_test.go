//go:build linux

package file

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
