//go:build linux

package stress

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
)

// The test binary is its own client.
func TestMain(m *testing.M) {
	told := os.Getenv(clientEnv)
	if told == "" {
		// The rounds mostly wait, for each other's turns and for leases to expire.
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
		os.Exit(testdirs.Run(m))
	}
	if err := runClients(told); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const (
	few  = 500  // cycles per client
	many = 5000 // likewise, in the long rounds

	// patience is for a whole round, on a machine that has much else to do.
	patience = 20 * time.Minute
)

func separator(address string) string {
	if strings.Contains(address, "?") {
		return "&"
	}
	return "?"
}

// 16 clients on 4 keys: never two holders at once, and tokens that only rise, also when clients
// are killed in the middle of their work and when the server is. They are in 4 processes, which
// leaves 2 cores time for other tests.
// Holds: promise 1.
func TestNoTwoHoldersAtOnce(t *testing.T) {
	t.Parallel()
	inParallel(t, stores, clients/4, int64(testsize.Of(few, many)))
}

// The same with a process for each client.
func TestNoTwoProcessesHoldAtOnce(t *testing.T) {
	if !testsize.Long() {
		t.Skip("set DIBS_TEST_LONG=1 for the long rounds")
	}
	inParallel(t, stores, clients, few)
}

func TestNoTwoHoldersAtOnceWhereMoreCanGoWrong(t *testing.T) {
	if !testsize.Long() {
		t.Skip("set DIBS_TEST_LONG=1 for the long rounds")
	}
	inParallel(t, []round{
		{name: "postgres with session locks", start: testserver.StartPostgres, params: "lock=session"},
		{name: "mariadb with session locks", start: testserver.StartMariaDB, params: "lock=session"},
		// It forgets all leases at a restart: that nothing is granted until they have expired is
		// what keeps holders apart then (rule L9).
		{name: "redis without a log", start: testserver.StartRedis, args: []string{"--appendonly", "no"}},
	}, clients/4, few)
}

var stores = []round{
	{name: "redis", start: testserver.StartRedis},
	{name: "postgres", start: testserver.StartPostgres},
	{name: "mariadb", start: testserver.StartMariaDB},
	{name: "file"},
}

func inParallel(t *testing.T, rounds []round, processes int, cycles int64) {
	for _, r := range rounds {
		t.Run(r.name, func(t *testing.T) { t.Parallel(); r.run(t, processes, cycles) })
	}
}

// A round is one store, with a server of its own if it has any.
type round struct {
	name, params string
	start        func(testing.TB, ...string) *testserver.Server
	args         []string
}

func (r round) run(t *testing.T, processes int, quota int64) {
	if r.start == nil {
		s := prepare(t, "file://"+t.TempDir(), processes, quota)
		s.begin()
		s.harm(0.25, "a process killed", s.killHolder)
		s.harm(0.5, "a process killed", s.killHolder)
		s.finish()
		return
	}
	server := r.start(t, r.args...)
	address := server.URL
	if r.params != "" {
		address += separator(address) + r.params
	}
	s := prepare(t, address, processes, quota)
	s.begin()
	s.harm(0.25, "a process killed", s.killHolder)
	s.harm(0.5, "the server killed and restarted", func() { s.restart(server) })
	if testsize.Long() {
		s.harm(0.6, "the server killed and away for two TTLs", func() { s.outage(server.Kill, server.Restart) })
		s.harm(0.75, "the server stopped for two TTLs", func() { s.outage(server.Stop, server.Cont) })
	}
	s.finish()
}

// A store that grants what is held, and one whose tokens fall, are both found out.
func TestTheObserverSees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lie  string
		seen func(*board) int64
	}{
		{generous, func(b *board) int64 { return b.overlaps.Load() }},
		{backwards, func(b *board) int64 { return b.stale.Load() }},
	} {
		t.Run(c.lie, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, "file://"+t.TempDir(), clients/4, 1<<40)
			s.Lie = c.lie
			s.begin()
			s.await("a sign of the lie", func() bool { return c.seen(s.board) > 0 })
			s.await("words about it", func() bool { return s.words() != "" })
		})
	}
}
