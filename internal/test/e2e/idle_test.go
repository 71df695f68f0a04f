//go:build linux

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	mysql "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testsize"
	jobspec "github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/tick"
)

// mostAsked is how much three idle servers may ask of a store in a minute, however many jobs they have:
// transactions of PostgreSQL, scripts of Redis, single statements of MariaDB, of which each transaction has
// several.
const mostAsked = 600

// atTheEdge is what a sweep and its heartbeats may be more than their share in a window of some seconds.
const atTheEdge = 30

// Fault: each server asked for each job in each sweep: 32,000 transactions a minute for three with 250 jobs.
// Once servers have found each other they ask by their clocks: on a busy machine they ask for less in a minute.
// Holds: T15.
func TestIdleServersAskLittle(t *testing.T) {
	t.Parallel()
	jobs, watched := testsize.Of(2_000, 10_000), time.Duration(testsize.Of(12, 60))*time.Second
	asked := map[string]func(*testing.T, string) map[string]int64{"redis": scripts, "postgres": transactions, "mariadb": commands}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if s.name == "postgres" {
				flags = []string{"-c", "autovacuum=off"} // its transactions are nobody's here
			}
			address := s.own(t, flags...).URL
			way := address
			if s.name == "mariadb" {
				way = counting(t, address)
			}
			for n := range 3 {
				idle(t, way, n, jobs)
			}
			said := ""
			eventually(t, 2*patience, func() bool {
				from, before := time.Now(), asked[s.name](t, address)
				time.Sleep(watched)
				after, took := asked[s.name](t, address), time.Since(from)
				most := int64(mostAsked * took.Minutes())
				if watched < time.Minute {
					most += atTheEdge
				}
				said = fmt.Sprintf("%d jobs, three idle servers, in %s:", jobs, took.Round(time.Millisecond))
				little := true
				for what := range after {
					n := after[what] - before[what]
					said += fmt.Sprintf(" %d %s", n, what)
					little = little && (n <= most || what != "transactions" && what != "statements")
				}
				return little
			}, func() string { return fmt.Sprintf("at most %d requests a minute; %s", mostAsked, said) })
			t.Log(said)
		})
	}
}

// idle serves daily jobs that are run again and caught up on, until the test ends. A manifest has fewer; a
// namespace may have as many.
func idle(t *testing.T, address string, n, jobs int) {
	t.Helper()
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c.Init = true
	st, err := all.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		t.Fatal(err)
	}
	self := lease.Holder{Host: fmt.Sprint("h", n), PID: n, Command: scheduler.ServerCommand("app")}
	server := scheduler.NewServer(&scheduler.Backend{Name: address, Keeper: k, Book: tick.NewBook(st.Ticks, k, self),
		Ticks: st.Ticks, History: st.History, Self: self, Log: slog.New(slog.DiscardHandler)}, "app")
	var served []*scheduler.Job
	for i := range jobs {
		p := jobspec.DefaultPolicy(true)
		p.OnCrash, p.CatchUp, p.CatchUpWindow = jobspec.CrashRerun, jobspec.CatchUpAll, 24*time.Hour
		served = append(served, &scheduler.Job{Spec: jobspec.Spec{App: "app", Name: fmt.Sprint("j", i),
			Schedules: []string{"0 3 * * *"}, Timezone: "UTC", Policy: p}, Target: run.Func(func(context.Context, run.Call) error { return nil })})
	}
	eventually(t, patience, func() bool { err = server.Load(t.Context(), served); return !errors.Is(err, lease.ErrUnavailable) },
		func() string { return fmt.Sprint("the jobs are registered: ", err) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Run(ctx, time.Second)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		k.Close()
		_ = st.Close()
	})
}

// scripts counts those that Redis has run. A script is a transaction.
func scripts(t *testing.T, address string) map[string]int64 {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(&goredis.Options{Addr: u.Host})
	defer c.Close()
	all, err := c.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int64{"transactions": 0, "commands": 0}
	for name, stats := range all["Commandstats"] {
		var calls int64
		if _, err := fmt.Sscanf(stats, "calls=%d", &calls); err != nil {
			t.Fatalf("%s: %s: %v", name, stats, err)
		}
		switch name {
		case "cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall":
			count["transactions"] += calls
		}
		count["commands"] += calls
	}
	return count
}

func transactions(t *testing.T, address string) map[string]int64 {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=disable"
	c, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	count := map[string]int64{}
	var n, rows int64
	err = c.QueryRow(t.Context(), "SELECT xact_commit + xact_rollback, tup_returned FROM pg_stat_database WHERE datname = current_database()").Scan(&n, &rows)
	if err != nil {
		t.Fatal(err)
	}
	count["transactions"], count["rows read"] = n, rows
	return count
}

// commands counts what MariaDB was sent: one command is a whole packet of statements, and a transaction.
func commands(t *testing.T, address string) map[string]int64 {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysql.NewConnector(&mysql.Config{User: "root", Net: "tcp", Addr: u.Host, AllowNativePasswords: true})
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	defer db.Close()
	var name string
	var n int64
	if err := db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return map[string]int64{"statements": n, "transactions": sent.Load()}
}

// sent are the commands that went through counting.
var sent atomic.Int64

// counting is the address of a way to a MariaDB on which commands are counted: messages of clients that begin a
// dialog.
func counting(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	server := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				there, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer there.Close()
				go func() { _, _ = io.Copy(client, there) }()
				forward(there, client)
			}()
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

// forward passes messages on: three bytes of length, a number within the dialog, and the text.
func forward(to io.Writer, from io.Reader) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		if head[3] == 0 {
			sent.Add(1)
		}
		if _, err := to.Write(head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(head[0])|int64(head[1])<<8|int64(head[2])<<16); err != nil {
			return
		}
	}
}
