//go:build linux

package million

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// What a record says.
const (
	joined    = iota + 1 // a session began, under a new lease
	fetched              // the store gave the task to the session
	completed            // the store accepted that it succeeded
	ended                // the store accepted another end, such as that it is handed back
	refused              // the store refused what the session reported
	renewed              // the session's lease was granted or renewed; Token is when that was asked for, in µs
	released             // the session's lease was released; Token as above
)

// A record is what the store told a process about one task.
type record struct {
	What  int64
	Shift uint64 // whose lease
	Task  task.ID
	Token lease.Token
	At    int64 // µs of Unix time
}

const recordSize = 5 * 8

// shiftOf shortens the identity of a worker's lease.
func shiftOf(worker lease.Ref) uint64 { return binary.LittleEndian.Uint64(worker.Owner[:]) }

// A scribe writes what one process is told. A record is written before anything follows from it, and what is written
// outlives the process, however that ends. Completions have a file of their own, whose size says how many there are.
type scribe struct{ done, rest *os.File }

const doneEnd, restEnd = ".done", ".rest"

func newScribe(dir, name string) (*scribe, error) {
	var s scribe
	for end, f := range map[string]**os.File{doneEnd: &s.done, restEnd: &s.rest} {
		var err error
		if *f, err = os.OpenFile(filepath.Join(dir, name+end), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

func (s *scribe) write(records ...record) {
	var done, rest []byte
	now := time.Now().UnixMicro()
	for _, r := range records {
		r.At = now
		if r.What == completed {
			done = r.append(done)
		} else {
			rest = r.append(rest)
		}
	}
	for f, b := range map[*os.File][]byte{s.done: done, s.rest: rest} {
		if len(b) == 0 {
			continue
		}
		if _, err := f.Write(b); err != nil {
			panic(fmt.Sprintf("the ledger is no use without this: %v", err))
		}
	}
}

func (r *record) append(b []byte) []byte {
	for _, n := range [...]uint64{uint64(r.What), r.Shift, uint64(r.Task), uint64(r.Token), uint64(r.At)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// A book is all that one process wrote.
type book struct {
	name    string
	records []record
	// killed: it was ended in the middle of something. stale: it reports only what it has lost.
	killed, stale bool
}

func readBooks(dir string, killed map[string]bool) ([]book, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+restEnd))
	if err != nil {
		return nil, err
	}
	books := make([]book, len(paths))
	for i, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), restEnd)
		books[i] = book{name: name, killed: killed[name], stale: name == straggler}
		for _, end := range []string{restEnd, doneEnd} {
			records, err := readRecords(filepath.Join(dir, name+end))
			if err != nil {
				return nil, err
			}
			books[i].records = append(books[i].records, records...)
		}
	}
	return books, nil
}

// readRecords reads what is whole: a process may have been killed in the middle of its last one.
func readRecords(path string) ([]record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	records := make([]record, len(b)/recordSize)
	_, err = binary.Decode(b[:len(records)*recordSize], binary.LittleEndian, records)
	return records, err
}

// count is how many records there are so far in the files with this ending.
func count(dir, end string) (n int64, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+end))
	for _, path := range paths {
		if st, err := os.Stat(path); err == nil {
			n += st.Size() / recordSize
		}
	}
	return n, err
}
