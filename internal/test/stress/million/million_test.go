//go:build linux

package million

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

const (
	workers   = 4
	producers = 2
	batch     = 500             // tasks that are enqueued at a time
	backlog   = 20_000          // at which producers wait
	killEvery = 5 * time.Second // in a long round
)

// A long round has one store at a time, a short one all of them at once: they mostly wait for leases to lapse.
// Holds: promise 19.
func TestAMillionInAndOut(t *testing.T) {
	n := testsize.Of(2_000, 1_000_000)
	var all sync.WaitGroup
	for i := range stores {
		one := func() { t.Run(stores[i].name, func(t *testing.T) { run(t, i, n) }) }
		if testsize.Long() {
			one()
		} else {
			all.Go(one)
		}
	}
	all.Wait()
}

func run(t *testing.T, store, n int) {
	r := prepare(t, store, n)
	r.finishBefore()
	stores[store].hold(r)
	r.work()
	r.held()
	j := r.verify()
	r.report(j)
}

// A round is one store with its ledgers.
type round struct {
	*testing.T
	part
	n      int
	name   string
	title  string
	lapses bool
	server string // its address, without what is ours
	s      *store.Store
	words  *os.File // what the workers print
	held   func()   // checks that the snapshot is still held, and lets go of it

	first  task.ID // the last task before the round
	began  time.Time
	took   time.Duration // until the last completion
	kills  []time.Time
	killed map[string]bool
	chart  *chart
	costs  []cost

	mu     sync.Mutex
	acked  []task.ID
	unsure int // tasks that were enqueued without an answer
	// What the ledgers tell of so far: completions, and what was given. The former never tells of all, since a worker
	// that is killed may not have come to write what it was answered.
	done, given atomic.Int64
}

func prepare(t *testing.T, i, n int) *round {
	t.Helper()
	s := &stores[i]
	r := &round{T: t, n: n, name: s.name, title: s.title, lapses: s.lapses, held: func() {}, killed: map[string]bool{}}
	r.TTL = lease.DefaultTTL
	r.Slots, r.Prefetch = 50, s.prefetch
	if !testsize.Long() { // what a killed worker had is worked one by one, once its lease has lapsed
		r.TTL, r.Slots, r.Prefetch = 4*time.Second, 10, 20
	}
	r.Ledger = t.TempDir()
	r.server = s.address(r)
	sep := "?"
	if strings.Contains(r.server, "?") {
		sep = "&"
	}
	r.Store = fmt.Sprintf("%s%sttl=%s&namespace=million-%s", r.server, sep, r.TTL, lease.NewNonce().String()[:8])
	var err error
	if r.s, err = open(t.Context(), r.Store, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.s.Close() })
	if r.words, err = os.Create(filepath.Join(t.TempDir(), "words")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.words.Close() })
	return r
}

func (r *round) specs(from, n int) []task.Spec {
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = kind.Spec(args{N: from + i})
		specs[i].Queue = task.DefaultQueue
		specs[i].MaxCrashes = 1000 // it is we who kill
	}
	return specs
}

// finishBefore has as many tasks finished as the round has: by one worker, which does nothing else.
func (r *round) finishBefore() {
	r.Helper()
	began := time.Now()
	k, err := lease.NewKeeper(lease.Options{Store: r.s.Leases, Notify: r.s.Notify, Margin: lease.MarginFor(r.TTL)})
	if err != nil {
		r.Fatal(err)
	}
	defer k.Close()
	l, err := k.Acquire(r.Context(), lease.Want{Key: lease.OnceKey()})
	if err != nil {
		r.Fatal(err)
	}
	if err := r.s.Queue.Register(r.Context(), driver.Process{Lease: l.Ref(), Queues: []string{task.DefaultQueue}, Slots: 1000}); err != nil {
		r.Fatal(err)
	}
	for done := 0; done < r.n; {
		answers, err := r.s.Queue.Enqueue(r.Context(), r.specs(-1, min(1000, r.n-done)))
		if err != nil {
			r.Fatal(err)
		}
		for left := len(answers); left > 0; {
			f, err := r.s.Queue.Fetch(r.Context(), driver.FetchRequest{Worker: l.Ref(), Queues: []string{task.DefaultQueue}, Max: left})
			if err != nil || len(f.Tasks) == 0 {
				r.Fatalf("%d of %d are left to be fetched: %v", left, len(answers), err)
			}
			left, done = left-len(f.Tasks), done+len(f.Tasks)
			r.finish(r.s.Queue, l.Ref(), f.Tasks, driver.OK)
			r.first = max(r.first, f.Tasks[len(f.Tasks)-1].ID)
		}
	}
	if err := r.s.Queue.Deregister(r.Context(), l.Ref()); err != nil {
		r.Fatal(err)
	}
	if err := l.Release(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.Logf("%d tasks were finished beforehand, in %v", r.n, time.Since(began).Round(time.Second))
}

// finish reports that tasks have succeeded, and wants one answer for all of them.
func (r *round) finish(q driver.Store, worker lease.Ref, tasks []driver.Fetched, want driver.Status) {
	r.Helper()
	now := time.Now()
	ends := make([]driver.Completion, len(tasks))
	for i, t := range tasks {
		ends[i] = driver.Completion{Ref: t.Ref, Verdict: driver.Success, Outcome: "succeeded", Started: now, Ended: now}
	}
	st, err := q.Finish(r.Context(), worker, ends)
	if err != nil {
		r.Errorf("finish: %v", err)
	}
	for i := range st {
		if st[i] != want {
			r.Errorf("task %d under token %d: its end is answered %d, want %d", tasks[i].ID, tasks[i].Token, st[i], want)
		}
	}
}

// unbegun says that SIGTERM came before the process could heed it, which it does before it does anything else.
func unbegun(p *os.ProcessState) bool {
	ws, ok := p.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGTERM
}

// work is the round itself.
func (r *round) work() {
	r.Helper()
	r.began = time.Now()
	team := make([]*worker, workers)
	defer func() {
		for _, w := range team {
			if w == nil {
				return // none was started
			}
			_ = w.Process.Signal(syscall.SIGTERM)
		}
		for _, w := range team {
			if err := w.Wait(); err != nil && !unbegun(w.ProcessState) {
				r.Errorf("a worker ended with %v", err)
			}
		}
	}()
	var in, aside sync.WaitGroup
	stop := make(chan struct{})
	aside.Go(func() { r.spend(stop) })
	defer func() { close(stop); aside.Wait() }()
	var next atomic.Int64
	for range producers {
		in.Go(func() { r.produce(&next) })
	}
	enqueued := make(chan struct{})
	var late sync.WaitGroup
	ready := make(chan struct{})
	late.Go(func() { r.straggle(enqueued, sync.OnceFunc(func() { close(ready) })) })
	go func() { in.Wait(); close(enqueued) }()
	<-ready
	for i := range team {
		team[i] = r.start()
	}

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	harm := r.harm(enqueued)
	look, told := time.Now(), time.Now()
	for ; ; <-tick.C {
		if r.count(); r.Failed() {
			break
		}
		if harm() {
			r.kill(team)
		}
		if testsize.Long() && time.Since(told) > 30*time.Second {
			r.Logf("%4.0f s: %d done, %d kills", time.Since(r.began).Seconds(), r.done.Load(), len(r.kills))
			told = time.Now()
		}
		if !closed(enqueued) || time.Now().Before(look) {
			continue
		}
		began := time.Now()
		if r.left() == 0 {
			break
		}
		look = time.Now().Add(max(time.Second, time.Since(began))) // to look is not to be the work
	}
	late.Wait()
}

func (r *round) count() {
	r.Helper()
	for end, into := range map[string]*atomic.Int64{doneEnd: &r.done, restEnd: &r.given} {
		n, err := count(r.Ledger, end)
		if err != nil {
			r.Fatal(err)
		}
		into.Store(n)
	}
}

// harm says when it is time to kill: in a long round every few seconds, in a short one after each third, as it
// may be over in a second. In both only when something was done since the last kill: on a slow machine workers
// that are killed before they have begun would never end. Once all are enqueued nobody is killed any more, so
// that the round ends.
func (r *round) harm(enqueued <-chan struct{}) func() bool {
	last, before := time.Now(), int64(0)
	return func() bool {
		done := r.done.Load()
		due := done-before >= int64(r.n)/3
		if testsize.Long() {
			due = time.Since(last) >= killEvery && done > before && !closed(enqueued)
		}
		if due {
			last, before = time.Now(), done
		}
		return due
	}
}

func (r *round) produce(next *atomic.Int64) {
	c := queue.NewClient(queue.ClientOptions{Store: r.s.Queue})
	defer c.Close()
	for r.Context().Err() == nil {
		n := int(next.Add(batch))
		if n-batch >= r.n {
			return
		}
		for n-int(r.given.Load()) > backlog && r.Context().Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		r.enqueue(c, r.specs(n-batch, min(batch, r.n-(n-batch))))
	}
}

// enqueue does so until the store has answered. A batch without an answer may be there as well as not.
func (r *round) enqueue(c *queue.Client, specs []task.Spec) {
	for r.Context().Err() == nil {
		answers, err := c.EnqueueMany(r.Context(), specs)
		r.mu.Lock()
		for _, a := range answers {
			r.acked = append(r.acked, a.ID)
		}
		specs = specs[len(answers):]
		if err != nil {
			r.unsure += len(specs)
		}
		r.mu.Unlock()
		switch {
		case err == nil:
			return
		case !errors.Is(err, queue.ErrUnavailable):
			r.Errorf("enqueue: %v", err)
			return
		}
		r.Logf("enqueue, and again: %v", err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

type worker struct {
	*exec.Cmd
	in io.WriteCloser
}

// start starts a worker process.
func (r *round) start() *worker {
	r.Helper()
	told, err := json.Marshal(r.part)
	if err != nil {
		r.Fatal(err)
	}
	w := &worker{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	w.Env = append(os.Environ(), workerEnv+"="+string(told))
	w.Stdout, w.Stderr = r.words, os.Stderr
	if w.in, err = w.StdinPipe(); err != nil {
		r.Fatal(err)
	}
	if err := w.Start(); err != nil {
		r.Fatal(err)
	}
	return w
}

// kill ends one worker at once, and puts another one in its place.
func (r *round) kill(team []*worker) {
	r.Helper()
	i := rand.IntN(len(team))
	if err := team[i].Process.Signal(syscall.SIGKILL); err != nil {
		r.Errorf("kill: %v", err)
	}
	_ = team[i].Wait() // it was killed
	r.killed[strconv.Itoa(team[i].Process.Pid)] = true
	r.kills = append(r.kills, time.Now())
	team[i] = r.start()
}

// left is how many tasks are not final, and 1 where nobody knows.
func (r *round) left() (n int) {
	r.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	subs, err := r.s.Tasks.Queues(ctx)
	if err != nil {
		r.Logf("Queues, after %v: %v", time.Since(began), err)
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
