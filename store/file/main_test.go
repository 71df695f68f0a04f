//go:build linux

package file

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Several tests need real processes: the test binary starts itself with a role to play. A role
// says what it did in lines, and waits for its standard input to end.
const roleEnv = "DIBS_FILE_TEST_ROLE"

var roles = map[string]func(*store.Store) error{
	"hold":       roleHold,
	"hand on":    roleHandOn,
	"shorten":    roleShorten,
	"hold 0.3 s": roleHoldShort(300 * time.Millisecond),
	"hold 3 s":   roleHoldShort(3 * time.Second),
	"hold 30 s":  roleHoldShort(30 * time.Second),
	"stress":     roleStress,
	"probe":      roleProbe,
	"import":     roleImport,
	"claim":      roleClaim,
	"transact":   roleTransact,
	"enqueue":    roleEnqueue,
	"share":      roleShare,
	"tell":       roleTell,
	"open":       func(s *store.Store) error { fmt.Println(s.Properties.InstallationID); return nil },
}

func TestMain(m *testing.M) {
	if p := strings.Split(os.Getenv(attackerEnv), "\n"); len(p) == 3 {
		if err := plant(p[0], p[1], p[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	role, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		inMemory()
		os.Exit(m.Run())
	}
	s, err := OpenConfig(context.Background(), configAt(os.Args[1], true))
	if err == nil {
		err = role(s)
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// The tests that take long are parallel. Those stay by themselves that change what all share (mostAtOnce, driverName,
// the meter, the list of shared file systems), or that free a lock by closing its descriptor: a child that is just
// being forked would keep it until its exec.

// inMemory has the tests make their directories in memory where there is plenty: what a disk loses with the power is
// tested nowhere, while thousands of commits would wait for it.
func inMemory() {
	const dir, plenty = "/dev/shm", 4 << 30
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); os.Getenv("TMPDIR") == "" && err == nil && uint64(fs.Bsize)*fs.Bavail >= plenty {
		_ = os.Setenv("TMPDIR", dir)
	}
}

func configAt(dir string, init bool) store.Config {
	return store.Config{URL: &url.URL{Scheme: "file", Path: dir}, Namespace: "dibs", TTL: lease.DefaultTTL, Init: init}
}

func openAt(t testing.TB, dir string) *store.Store {
	t.Helper()
	room.For(t)
	s, err := OpenConfig(context.Background(), configAt(dir, true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inside is what only this package can see of an opened store.
func inside(s *store.Store) *db { return s.Ticks.(*ticks).db }

// A process is one that plays a role.
type process struct {
	*exec.Cmd
	out *bufio.Scanner
	in  interface{ Close() error }
}

func play(t testing.TB, role, dir string) *process {
	t.Helper()
	room.For(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe, dir)}
	p.Env = append(os.Environ(), roleEnv+"="+role)
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill(); _ = p.Wait() })
	return p
}

func (p *process) kill() { _ = p.Process.Kill() }

// line is the next that the process says.
func (p *process) line(t testing.TB) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("%s: it said nothing: %v", p.Env[len(p.Env)-1], p.out.Err())
	}
	if s := p.out.Text(); !strings.HasPrefix(s, "error:") {
		return s
	}
	t.Fatal(p.out.Text())
	return ""
}

// wait is for the end of standard input: roles stay until they are told to go.
func wait() { _, _ = bufio.NewReader(os.Stdin).ReadByte() }

func requestFor(key lease.Key, ttl time.Duration) lease.AcquireRequest {
	return lease.AcquireRequest{Key: key, TTL: ttl, Holder: lease.Holder{ID: lease.NewNonce(), Host: "h", PID: os.Getpid()}}
}

func tryAcquire(s *store.Store, q lease.AcquireRequest) (lease.Answer, error) {
	r, err := s.Leases.Acquire(context.Background(), []lease.AcquireRequest{q})
	if err != nil {
		return lease.Answer{}, err
	}
	return r.Answers[0], nil
}

func acquire(t testing.TB, s *store.Store, key lease.Key) lease.Answer {
	t.Helper()
	a, err := tryAcquire(s, requestFor(key, lease.DefaultTTL))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func granted(t testing.TB, s *store.Store, key lease.Key) lease.Ref {
	t.Helper()
	a := acquire(t, s, key)
	if a.Status != lease.OK {
		t.Fatalf("Acquire(%q): %v of %+v, want ok", key, a.Status, a.Record)
	}
	return a.Record.Ref()
}

// beginRun starts a run without a tick under ref.
func beginRun(s *store.Store, ref lease.Ref, id string) error {
	a, err := s.Ticks.Start(context.Background(), []tick.StartRequest{{
		Run: run.Record{ID: id, Job: string(ref.Key), Host: "h", Command: "true"}, Lease: ref}})
	if err == nil && a[0].Status != tick.Won {
		err = fmt.Errorf("start: %v", a[0].Status)
	}
	return err
}

func endRun(s *store.Store, ref lease.Ref, id string) error {
	r := run.Record{ID: id, Job: string(ref.Key), Owner: ref.Owner, Token: ref.Token, Outcome: run.Succeeded}
	a, err := s.Ticks.Close(context.Background(), []tick.CloseRequest{{Run: r, Release: ref}})
	if err == nil && a[0].Status != tick.Won {
		err = fmt.Errorf("close: %v", a[0].Status)
	}
	return err
}

func runsOf(t testing.TB, s *store.Store, id string) []run.Record {
	t.Helper()
	runs, err := s.History.Runs(context.Background(), history.Query{RunID: id, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}
