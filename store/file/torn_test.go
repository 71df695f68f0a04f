//go:build linux

package file

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// again does something until it is done, and returns the errors on the way: while some connection still uses the torn
// memory, there is one for whoever asks.
func again(do func() error) (errs []error, err error) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err = do(); err == nil || time.Now().After(end) {
			return errs, err
		}
		errs = append(errs, err)
	}
}

func tell(s *store.Store) error {
	return s.History.Append(context.Background(), []history.Event{{Kind: "test"}})
}

// roleTell writes an event for each line that it reads, and looks at the database all the time, as workers do.
func roleTell(s *store.Store) error {
	if _, err := s.Queue.Watch(context.Background(), nil); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		errs, err := again(func() error { return tell(s) })
		if err != nil {
			return err
		}
		fmt.Println("told after", len(errs))
	}
	return nil
}

// Fault: a member of a shared directory who truncated dibs.db-shm had every running server need a restart: all that it
// asked of the database failed for ever.
func TestATruncatedSharedMemoryIsMadeAnew(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s, idle := openAt(t, path), openAt(t, path)
	app, err := OpenDB(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if _, err := app.Exec("CREATE TABLE IF NOT EXISTS app (x)"); err != nil {
		t.Fatal(err)
	}
	signs, err := s.Queue.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var others []*process
	for range 3 {
		others = append(others, play(t, "tell", path))
	}
	told := 0
	othersTell := func() {
		t.Helper()
		for _, p := range others {
			if _, err := io.WriteString(p.in.(io.Writer), "go\n"); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range others {
			p.line(t)
			told++
		}
	}
	succeeds := func(what string, do func() error) {
		t.Helper()
		errs, err := again(do)
		if err != nil {
			t.Fatalf("%s, tried for half a minute: %v", what, err)
		}
		for _, err := range errs {
			if !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "-shm") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	// appPools has some connections of the application's pool open at once, and then idle.
	appPools := func() error {
		var all []*sql.Tx
		defer func() {
			for _, tx := range all {
				_ = tx.Rollback()
			}
		}()
		for range 3 {
			tx, err := app.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return err
			}
			all = append(all, tx)
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM app").Scan(&n); err != nil {
				return err
			}
		}
		return nil
	}
	told += 2
	if err := errors.Join(tell(s), tell(idle), appPools()); err != nil {
		t.Fatal(err)
	}
	othersTell()
	for _, size := range []int64{0, 3, 4096, 0} {
		if err := os.Truncate(inside(s).path+"-shm", size); err != nil {
			t.Fatal(err)
		}
		succeeds("the application's transaction", func() error {
			tx, err := app.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			if _, err = tx.Exec("INSERT INTO app VALUES (1)"); err != nil {
				_ = tx.Rollback()
				return inside(s).fail("", err)
			}
			return inside(s).fail("", tx.Commit())
		})
		succeeds("an event", func() error { return tell(s) })
		told++
		othersTell()
		for range signsOf(signs) { // of before
		}
		succeeds("another event", func() error { return tell(idle) })
		told++
		select {
		case _, open := <-signs:
			if !open {
				t.Fatal("the watch ended")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the watch tells of nothing")
		}
		succeeds("reading", func() error { _, err := s.History.Runs(t.Context(), history.Query{Limit: 1}); return err })
		if err := appPools(); err != nil {
			t.Log("the application's other connections:", err) // they close as they are found out
		}
	}
	events, err := openAt(t, path).History.Events(t.Context(), history.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Kind == "test" {
			n++
		}
	}
	if n < told { // one that was called unavailable may have been written all the same
		t.Errorf("%d of %d events are there", n, told)
	}
	var sound string
	if err := app.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("integrity_check: %s, %v", sound, err)
	}
}

// signsOf are the signs that are there already.
func signsOf(signs <-chan struct{}) (there []struct{}) {
	for {
		select {
		case s, open := <-signs:
			if !open {
				return there
			}
			there = append(there, s)
		default:
			return there
		}
	}
}
