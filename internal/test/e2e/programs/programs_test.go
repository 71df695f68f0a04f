//go:build linux

package programs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

// programs are the three first programs of docs/first-steps/go.md, with work that says what it does in a file.
var programs = map[string]func(ctx context.Context, c *dibs.Client) error{
	"lock": func(ctx context.Context, c *dibs.Client) error {
		return c.Do(ctx, "leader", func(ctx context.Context, l *lease.Lease) error {
			return work(ctx, "leader", int64(l.Token()))
		}, dibs.LockOptions{Wait: -1})
	},
	"cron": func(ctx context.Context, c *dibs.Client) error {
		_ = c.Cron("reports", "@every 5s", func(ctx context.Context, t dibs.Tick) error {
			return work(ctx, t.At.Format(time.RFC3339), int64(t.Token))
		}, dibs.CronOptions{OnCrash: job.CrashRerun})
		return c.Run(ctx)
	},
	"worker": func(ctx context.Context, c *dibs.Client) error {
		_ = dibs.Handle(c, welcome, func(ctx context.Context, t *dibs.Task, name string) error {
			return work(ctx, name, int64(t.Token))
		})
		return c.Run(ctx)
	},
}

var welcome = dibs.Define[string]("welcome")

// play is a process of a program: its store, its file and its name are in the environment.
func play(program string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := all.Open(ctx, os.Getenv("PROGRAM_STORE"))
	if err != nil {
		return err
	}
	defer st.Close()
	c, err := dibs.New(st, dibs.Options{App: "shop", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer c.Close()
	return programs[program](ctx, c)
}

// work says that it began, and goes on for ever, as long as nobody was killed; after that it is done at once.
func work(ctx context.Context, what string, token int64) error {
	file := os.Getenv("PROGRAM_FILE")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, what, os.Getpid(), token); err != nil {
		return err
	}
	if _, err := os.Stat(file + ".killed"); err == nil {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestMain(m *testing.M) {
	if p := os.Getenv("PROGRAM"); p != "" {
		if err := play(p); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they mostly wait for leases to lapse
	os.Exit(m.Run())
}

// line is one beginning of work.
type line struct {
	what  string
	pid   int
	token int64
}

// world is two processes of a program, and what they wrote.
type world struct {
	t           *testing.T
	store, file string
	processes   map[int]*exec.Cmd
}

func (w *world) start(program string) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PROGRAM="+program, "PROGRAM_STORE="+w.store, "PROGRAM_FILE="+w.file)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.processes[cmd.Process.Pid] = cmd
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("process %d said:\n%s", cmd.Process.Pid, &stderr)
		}
	})
}

func (w *world) lines() (all []line) {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Fields(l)
		if len(f) != 3 {
			continue
		}
		pid, _ := strconv.Atoi(f[1])
		token, _ := strconv.ParseInt(f[2], 10, 64)
		all = append(all, line{f[0], pid, token})
	}
	return all
}

// await waits for a line that the test wants, far longer than any machine should take.
func (w *world) await(what string, want func([]line) bool) []line {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if all := w.lines(); want(all) {
			return all
		}
	}
	w.t.Fatalf("nobody wrote %s: %+v", what, w.lines())
	return nil
}

// Two processes of a program: one has the work, and is killed in the middle of it; the other takes the same work over,
// with a larger token. Meanwhile it had none of it.
func TestTheOtherProcessTakesOver(t *testing.T) {
	for name, server := range map[string]func(testing.TB) string{"postgres": testserver.Postgres, "redis": testserver.Redis} {
		for program := range programs {
			t.Run(name+"/"+program, func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, store: fresh(t, server(t)), file: filepath.Join(t.TempDir(), "lines"), processes: map[int]*exec.Cmd{}}
				w.start(program)
				w.start(program)
				if program == "worker" {
					w.enqueue()
				}
				first := w.await("that it begins", func(all []line) bool { return len(all) > 0 })
				began := first[0]
				if len(first) != 1 {
					t.Errorf("both began: %+v", first)
				}
				if err := os.WriteFile(w.file+".killed", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				killed := w.processes[began.pid]
				if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				again := func(l line) bool { return l.what == began.what && l != began }
				all := w.await("that it takes over", func(all []line) bool { return slices.ContainsFunc(all, again) })
				if next := all[slices.IndexFunc(all, again)]; next.pid == began.pid || next.token <= began.token {
					t.Errorf("after %+v came %+v", began, next)
				}
				w.stop(began.pid, program)
			})
		}
	}
}

// stop ends the process that is left, which drains and succeeds.
func (w *world) stop(killed int, program string) {
	w.t.Helper()
	for pid, p := range w.processes {
		if pid == killed {
			continue
		}
		if program != "lock" { // which is over by itself once it had its turn
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				w.t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("the process that is left ended: %v", err)
			}
		case <-time.After(2 * time.Minute):
			w.t.Error("the process that is left does not end")
		}
	}
}

func (w *world) enqueue() {
	w.t.Helper()
	st, err := all.Open(w.t.Context(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	defer st.Close()
	c, err := dibs.New(st, dibs.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Enqueue(w.t.Context(), welcome.Spec("ann")); err != nil {
		w.t.Fatal(err)
	}
}

// fresh is a namespace of the test's own, prepared as `dibs init` does, so that nothing is held back.
func fresh(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("namespace", "programs-"+strings.ToLower(rand.Text()))
	u.RawQuery = q.Encode()
	c, err := storeConfig(u.String())
	if err != nil {
		t.Fatal(err)
	}
	st, err := all.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return u.String()
}

func storeConfig(address string) (store.Config, error) {
	c, err := store.Parse(address)
	c.Init = true
	return c, err
}
