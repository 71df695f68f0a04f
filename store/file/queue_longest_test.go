//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/test/testsize"
)

// BenchmarkLongestStep tells for how long one transaction of each sort has the writer at most, its commit included,
// and how much of the processors this process takes meanwhile, which depends less on what else the machine does.
// Nobody else on the host writes meanwhile: 50 ms is the goal at a million tasks. Run it with -benchtime 1x;
// DIBS_TEST_LONG=1 is a million.
func BenchmarkLongestStep(b *testing.B) {
	w := theStopwatch()
	was := driverName
	driverName = "timed sqlite"
	b.Cleanup(func() { driverName = was })
	longest := map[string]spell{}
	for b.Loop() {
		c := &crowd{TB: b, n: testsize.Of(1500, 50_000), watch: func(what string, _ int, do func()) {
			w.reset()
			do()
			longest[what] = longest[what].or(w.held)
			longest["emptying the log"] = longest["emptying the log"].or(w.emptied)
		}}
		c.run(20 * c.n)
	}
	byTime := slices.SortedFunc(maps.Keys(longest), func(x, y string) int { return cmp.Compare(longest[y].cpu, longest[x].cpu) })
	var text strings.Builder
	for i, what := range byTime {
		if i%5 == 0 { // a benchmark's log has ten lines
			text.WriteByte('\n')
		}
		h := longest[what]
		fmt.Fprintf(&text, "%s: %.1f ms, %.1f of the processors; ", what, float64(h.wall.Microseconds())/1000, float64(h.cpu.Microseconds())/1000)
	}
	b.Log(text.String())
	b.ReportMetric(float64(longest[byTime[0]].cpu.Microseconds())/1000, "ms-longest")
}

// A spell is how long something took, and how much of the processors.
type spell struct{ wall, cpu time.Duration }

func (h spell) or(x spell) spell { return spell{max(h.wall, x.wall), max(h.cpu, x.cpu)} }

// A stopwatch is SQLite's driver. It notes how long transactions have the writer, and how long the write-ahead log
// takes to empty, which keeps other writers out too.
type stopwatch struct {
	sqldriver.Driver
	mu            sync.Mutex
	held, emptied spell
}

// theStopwatch is registered once: a driver cannot be taken away.
var theStopwatch = sync.OnceValue(func() *stopwatch {
	p, _ := sql.Open("sqlite", "")
	w := &stopwatch{Driver: p.Driver()}
	_ = p.Close()
	sql.Register("timed sqlite", w)
	return w
})

func (w *stopwatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.emptied = spell{}, spell{}
}

// now is the time, and what this process has taken of the processors.
func (w *stopwatch) now() spell {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return spell{time.Duration(time.Now().UnixNano()), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

// note takes in what began at since.
func (w *stopwatch) note(most *spell, since spell) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	*most = most.or(spell{now.wall - since.wall, now.cpu - since.cpu})
}

func (w *stopwatch) Open(name string) (sqldriver.Conn, error) {
	c, err := w.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return timedConn{c.(connection), w, strings.Contains(name, "immediate")}, nil
}

type timedConn struct {
	connection
	w      *stopwatch
	writes bool
}

func (c timedConn) QueryContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if strings.Contains(text, "wal_checkpoint") {
		defer c.w.note(&c.w.emptied, c.w.now())
	}
	return c.connection.QueryContext(ctx, text, args)
}

func (c timedConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	tx, err := c.connection.BeginTx(ctx, o)
	if err != nil || !c.writes {
		return tx, err
	}
	return timedTx{tx, c.w, c.w.now()}, nil
}

type timedTx struct {
	sqldriver.Tx
	w     *stopwatch
	since spell
}

func (t timedTx) Commit() error {
	defer t.w.note(&t.w.held, t.since)
	return t.Tx.Commit()
}

func (t timedTx) Rollback() error {
	defer t.w.note(&t.w.held, t.since)
	return t.Tx.Rollback()
}
