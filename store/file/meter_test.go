//go:build linux

package file

import (
	"strings"
	"sync"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A meter counts what SQLite does, in steps of its virtual machine: a row that is read, compared, sorted or
// written takes a few, whatever is in memory already. It looks at each statement of all connections that are
// opened while it is there, when that ends.
type meter struct {
	mu        sync.Mutex
	connected map[uintptr]int64 // the steps of each connection's transaction
	most      int64             // of one transaction, since the last look
	worst     string            // the statement that took most steps by itself
	single    int64
}

// metering is the meter that there is: SQLite calls functions, and no closures.
var metering *meter

// metered has connections metered from now on, until the test ends.
func metered(t testing.TB) *meter {
	t.Helper()
	tls := libc.NewTLS()
	metering = &meter{connected: map[uintptr]int64{}}
	if rc := sqlite3.Xsqlite3_auto_extension(tls, pointerTo(meterConnection)); rc != sqlite3.SQLITE_OK {
		t.Fatalf("auto_extension: %d", rc)
	}
	t.Cleanup(func() {
		sqlite3.Xsqlite3_cancel_auto_extension(tls, pointerTo(meterConnection))
		tls.Close()
	})
	return metering
}

// meterConnection is called for each new connection.
func meterConnection(tls *libc.TLS, db, _, _ uintptr) int32 {
	return sqlite3.Xsqlite3_trace_v2(tls, db, sqlite3.SQLITE_TRACE_PROFILE, pointerTo(meterStatement), 0)
}

// meterStatement is called when a statement has ended.
func meterStatement(tls *libc.TLS, _ uint32, _, stmt, _ uintptr) int32 {
	steps := int64(sqlite3.Xsqlite3_stmt_status(tls, stmt, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 1))
	text := libc.GoString(sqlite3.Xsqlite3_sql(tls, stmt))
	metering.add(sqlite3.Xsqlite3_db_handle(tls, stmt), text, steps)
	return 0
}

func (m *meter) add(db uintptr, text string, steps int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if steps > m.single {
		m.single, m.worst = steps, text
	}
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " ")
	m.connected[db] += steps
	m.most = max(m.most, m.connected[db])
	switch strings.TrimRight(word, ";") {
	case "BEGIN", "COMMIT", "ROLLBACK":
		m.connected[db] = 0
	}
}

// took is how many steps the largest transaction of do took, and the statement of it that took most.
func (m *meter) took(do func()) (steps int64, worst string) {
	m.mu.Lock()
	m.most, m.single, m.worst = 0, 0, ""
	clear(m.connected)
	m.mu.Unlock()
	do()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most, m.worst
}
