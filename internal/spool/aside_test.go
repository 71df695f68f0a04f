package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A line never goes into a file that was set aside, delivered and removed between two calls of the writer's. The
// writers here do nothing else, so that many of them are between these two.
// Holds: T9.
func TestNothingIsWrittenIntoWhatIsGone(t *testing.T) {
	const writers, each = 16, 2000
	s := In(t.TempDir(), "store", "ns")
	d, err := s.make()
	if err != nil {
		t.Fatal(err)
	}
	var delivered, writing atomic.Int64
	deliver := func() {
		if d.Rename(s.name, s.aside()) != nil {
			return
		}
		f, err := os.Open(filepath.Join(s.dir, folder, s.aside()))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Error(err)
		}
		lines, err := os.ReadFile(f.Name())
		if err != nil {
			t.Error(err)
		}
		delivered.Add(int64(bytes.Count(lines, []byte("\n"))))
		if err := d.Remove(s.aside()); err != nil {
			t.Error(err)
		}
	}
	writing.Store(writers)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			defer writing.Add(-1)
			for range each {
				f, err := s.append(d)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := f.Write([]byte("\n")); err != nil {
					t.Error(err)
				}
				f.Close()
			}
		})
	}
	for writing.Load() > 0 {
		deliver()
	}
	all.Wait()
	deliver()
	if n := delivered.Load(); n != writers*each {
		t.Errorf("%d of %d lines were delivered", n, writers*each)
	}
}
