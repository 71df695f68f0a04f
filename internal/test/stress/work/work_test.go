//go:build linux

package work

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

const workerEnv = "DIBS_STRESS_WORKER"

// The test binary is its own worker.
func TestMain(m *testing.M) {
	told := os.Getenv(workerEnv)
	if told == "" {
		flag.Parse()
		if !testsize.Long() {
			_ = flag.Set("test.parallel", "4") // short rounds mostly wait for leases to lapse
		}
		os.Exit(m.Run())
	}
	if err := runWorker(told); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// inParallel has a short round beside others.
func inParallel(t *testing.T) {
	if !testsize.Long() {
		t.Parallel()
	}
}

// tasks is how many to work off. DIBS_TEST_TASKS says it otherwise; 200000 take a few minutes for each store.
func tasks(short, longer int) int {
	if n, err := strconv.Atoi(os.Getenv("DIBS_TEST_TASKS")); err == nil {
		return min(n, most)
	}
	return testsize.Of(short, longer)
}

var stores = []struct {
	name   string
	shared func(testing.TB) string
}{{"file", func(t testing.TB) string { return "file://" + t.TempDir() }}, {"redis", testserver.Redis}, {"postgres", testserver.Postgres}, {"mariadb", testserver.MariaDB}}

// Four workers, one of which is killed every second, and a quarter of the tasks under limits of one.
// Holds: promise 19.
func TestEveryEffectOncePerToken(t *testing.T) {
	inParallel(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			inParallel(t)
			n := tasks(2_000, 30_000)
			r := prepare(t, s.shared(t))
			r.enqueue(n)
			r.work(4, func(workers []*worker) {
				victim := rand.IntN(len(workers))
				workers[victim].signal(syscall.SIGKILL)
				_ = workers[victim].Wait()
				workers[victim] = r.start()
			})
			r.verify(n)
			if n := r.overlaps.Load(); n > 0 {
				t.Errorf("a limit of one was exceeded %d times", n)
			}
		})
	}
}

// A worker that is stopped for two TTLs, and goes on then, reports nothing.
func TestAStoppedWorkerIsRefused(t *testing.T) {
	if !testsize.Long() {
		t.Skip("set DIBS_TEST_LONG=1 for the long rounds")
	}
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			r := prepare(t, s.shared(t))
			n := tasks(2_000, 20_000)
			r.enqueue(n)
			stopped := false
			r.work(4, func(workers []*worker) {
				if !stopped {
					workers[0].signal(syscall.SIGSTOP)
					time.AfterFunc(2*ttl, func() { workers[0].signal(syscall.SIGCONT) })
				}
				stopped = true
			})
			r.verify(n)
		})
	}
}

// A round is one store with its ledger.
type round struct {
	*testing.T
	*ledger
	part
	s      *store.Store
	client *queue.Client
	words  *os.File // what the workers print
}

func prepare(t *testing.T, address string) *round {
	t.Helper()
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	r := &round{T: t, part: part{Ledger: filepath.Join(t.TempDir(), "ledger"),
		Store: fmt.Sprintf("%s%sttl=%s&namespace=work-%s", address, sep, ttl, lease.NewNonce().String()[:8])}}
	var err error
	if r.ledger, err = openLedger(r.Ledger); err != nil {
		t.Fatal(err)
	}
	if r.s, err = open(t.Context(), r.Store, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.s.Close() })
	if r.s.Queue == nil {
		t.Fatalf("%s keeps no queues", r.s.Kind)
	}
	if r.words, err = os.Create(filepath.Join(t.TempDir(), "words")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.words.Close() })
	r.client = queue.NewClient(queue.ClientOptions{Store: r.s.Queue})
	return r
}

func (r *round) enqueue(n int) {
	r.Helper()
	defer r.client.Close()
	specs := make([]task.Spec, n)
	for i := range specs {
		a := args{N: i}
		if i%4 == 0 {
			a.Key = 1 + i/4%keys
		}
		specs[i] = queue.Define[args]("effect").Spec(a)
		specs[i].MaxCrashes = 1000 // it is we who kill
		if a.Key > 0 {
			specs[i].Limit = key(a.Key)
		}
	}
	answers, err := r.client.EnqueueMany(r.Context(), specs)
	if err != nil || len(answers) != n {
		r.Fatalf("%d of %d were enqueued: %v", len(answers), n, err)
	}
}

type worker struct {
	*exec.Cmd
	in io.WriteCloser
}

func (w *worker) signal(s syscall.Signal) { _ = w.Process.Signal(s) }

// start starts a worker process.
func (r *round) start() *worker {
	r.Helper()
	told, _ := json.Marshal(r.part)
	w := &worker{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	w.Env = append(os.Environ(), workerEnv+"="+string(told))
	w.Stdout, w.Stderr = r.words, os.Stderr
	var err error
	if w.in, err = w.StdinPipe(); err != nil {
		r.Fatal(err)
	}
	if err := w.Start(); err != nil {
		r.Fatal(err)
	}
	return w
}

// work lets n workers work until all is done, and does harm every second in which something was done.
func (r *round) work(n int, harm func([]*worker)) {
	r.Helper()
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = r.start()
	}
	defer func() {
		for _, w := range workers {
			w.signal(syscall.SIGCONT)
			w.signal(syscall.SIGTERM)
			_ = w.Wait()
		}
	}()
	pause := time.Second
	if !testsize.Long() {
		pause = 200 * time.Millisecond // a short round is over in seconds
	}
	patience := time.Now().Add(15 * time.Minute)
	before := 0
	for time.Sleep(pause); ; time.Sleep(pause) {
		left := r.left()
		if left == 0 {
			return
		}
		if time.Now().After(patience) {
			r.Fatalf("%d tasks are left", left)
		}
		// On a slow machine workers that are killed before they have begun would never end.
		if left != before {
			harm(workers)
		}
		before = left
	}
}

// left is how many tasks are not final.
func (r *round) left() (n int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	subs, err := r.s.Tasks.Queues(ctx)
	if err != nil {
		r.Logf("Queues: %v", err)
		return 1
	}
	for _, l := range subs {
		for s, d := range l.Depth {
			if !s.Final() {
				n += d
			}
		}
	}
	return n
}

// verify compares what the ledger saw with what the store says.
func (r *round) verify(n int) {
	r.Helper()
	seen := 0
	for after := task.ID(0); ; {
		tasks, err := r.s.Tasks.Tasks(r.Context(), driver.Filter{After: after, Max: 1000})
		if err != nil {
			r.Fatal(err)
		}
		for i := range tasks {
			r.check(&tasks[i])
		}
		if seen += len(tasks); len(tasks) == 0 {
			break
		}
		after = tasks[len(tasks)-1].ID
	}
	again := int64(0)
	for i := range n {
		again += r.effects[i].applied.Load() - 1
	}
	r.Logf("%d tasks; %d effects were repeated under a larger token, %d came too late and were fenced off, %d reports were refused", seen, again, r.fenced.Load(), r.stale.Load())
	words, _ := os.ReadFile(r.words.Name())
	if seen != n || r.twice.Load()+r.doubled.Load() > 0 {
		r.Errorf("%d of %d tasks are there; %d effects were applied twice under one token, %d tasks were completed twice\n%s",
			seen, n, r.twice.Load(), r.doubled.Load(), words)
	}
}

func (r *round) check(t *driver.Task) {
	r.Helper()
	var a args
	if err := json.Unmarshal(t.Args, &a); err != nil {
		r.Fatal(err)
	}
	e := &r.effects[a.N]
	switch done := e.completed.Load(); {
	case t.State != task.Succeeded:
		r.Errorf("task %d is %s: %s", t.ID, t.State, t.Reason)
	case e.applied.Load() == 0:
		r.Errorf("task %d succeeded without its effect", t.ID)
	case done != 0 && done != int64(t.Token), e.token.Load() != int64(t.Token):
		r.Errorf("task %d: its last fetch has token %d, its completion %d, its last effect %d", t.ID, t.Token, done, e.token.Load())
	}
}
