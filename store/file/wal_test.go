//go:build linux

package file

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
)

// Whoever writes keeps the write-ahead log short, although somebody reads at every moment.
func TestTheLogStaysShortBesideReaders(t *testing.T) {
	t.Parallel()
	for _, each := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(each.String(), func(t *testing.T) { logBesideReaders(t, each) })
	}
}

// logBesideReaders has the next one begin to read before the last one has ended, which each does for so long.
func logBesideReaders(t *testing.T, each time.Duration) {
	s := openAt(t, t.TempDir())
	write := func() {
		if err := s.History.Append(t.Context(), []history.Event{{Kind: "test", Key: "k", Reason: "r"}}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	db := inside(s)
	readers := db.pool(2, "_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	defer readers.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	begin := func() *sql.Tx {
		tx, err := readers.Begin()
		if err == nil {
			err = tx.QueryRow("SELECT count(*) FROM dibs_schema").Scan(new(int))
		}
		if err != nil {
			t.Error(err)
		}
		return tx
	}
	go func() {
		defer close(stopped)
		for last := begin(); ; {
			time.Sleep(each)
			next := begin()
			_ = last.Rollback()
			last = next
			select {
			case <-stop:
				_ = last.Rollback()
				return
			default:
			}
		}
	}()
	longest, shortened := int64(0), false
	for end := time.Now().Add(2 * time.Minute); !shortened && time.Now().Before(end) && longest < 16*mostLog; {
		write()
		size := db.logSize()
		longest, shortened = max(longest, size), size < longest
	}
	close(stop)
	<-stopped
	if !shortened {
		t.Errorf("the log is %d bytes long, and was never shortened", longest)
	}
}

// While somebody reads without an end, writers wait for that ever more rarely: for a log of 128 MiB five times,
// each of which keeps all writers out for up to half a second.
func TestWritersSeldomWaitForOneWhoReadsForLong(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	write := func() {
		if err := s.History.Append(t.Context(), []history.Event{{Kind: "test", Key: "k", Reason: "r"}}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	db := inside(s)
	app, err := OpenDB(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	exec := func(sql string) {
		if _, err := app.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE much (b BLOB)")
	reader, err := app.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback() }()
	if err := reader.QueryRow("SELECT count(*) FROM much").Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	waits, last := 0, int64(0)
	for db.logSize() < 16*mostLog {
		exec("INSERT INTO much VALUES (zeroblob(4194304))")
		write()
		if db.log.grown != last {
			waits, last = waits+1, db.log.grown
		}
	}
	if waits == 0 || waits > 5 {
		t.Errorf("writers waited %d times for a log of %d MiB", waits, db.logSize()>>20)
	}
	// Once nobody reads, it is begun anew by itself.
	_ = reader.Rollback()
	long := db.logSize()
	for range 16 {
		exec("INSERT INTO much VALUES (zeroblob(4194304))")
		write()
	}
	if size := db.logSize(); size > long+mostLog {
		t.Errorf("nobody reads, and the log has grown from %d to %d MiB", long>>20, size>>20)
	}
}

// A process that could not empty a long log begins anew once somebody else has.
func TestALogThatWasLongOnce(t *testing.T) {
	s := openAt(t, t.TempDir())
	db := inside(s)
	db.log.grown = 100 * mostLog
	if err := s.History.Append(t.Context(), []history.Event{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if db.log.grown != 0 {
		t.Errorf("it waits until the log has %d MiB", 2*db.log.grown>>20)
	}
}
