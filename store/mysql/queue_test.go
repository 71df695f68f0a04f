package mysql

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

func spec(with ...func(*task.Spec)) task.Spec {
	s := task.Spec{Queue: "q", Kind: "k"}
	for _, w := range with {
		w(&s)
	}
	if err := s.Check(); err != nil {
		panic(err)
	}
	return s
}

func uniqueKey(key string) func(*task.Spec) {
	return func(s *task.Spec) { s.Unique = &task.Unique{Key: key} }
}

func limitOf(key string, n int) func(*task.Spec) {
	return func(s *task.Spec) { s.Limit = &task.Limit{Key: key, Max: n} }
}

func enqueue(t testing.TB, to driver.Inserter, specs ...task.Spec) []task.Enqueued {
	t.Helper()
	got, err := to.Enqueue(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// queueConfig lets a worker's lease outlast what a slow machine does.
func queueConfig(t testing.TB, address string) store.Config {
	c := config(t, address)
	c.TTL = time.Hour // no machine is so slow that a worker's lease lapses
	return c
}

// joined is a worker with a live lease.
func joined(t testing.TB, s *store.Store) lease.Ref {
	t.Helper()
	r := request(lease.OnceKey())
	r.TTL = time.Hour
	c := grant(t, s, r)
	if err := s.Queue.Register(t.Context(), driver.Process{Lease: c, Host: "h", PID: 1, Queues: []string{"q"}, Slots: 10}); err != nil {
		t.Fatal(err)
	}
	return c
}

func fetchSome(t testing.TB, s *store.Store, w lease.Ref, n int) driver.Fetch {
	t.Helper()
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: n, Suspects: true, Crashers: true})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func complete(t testing.TB, by driver.Finisher, w lease.Ref, tasks ...driver.Fetched) {
	t.Helper()
	var ends []driver.Completion
	for _, x := range tasks {
		ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: driver.Success})
	}
	got, err := by.Finish(t.Context(), w, ends)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got {
		if s != driver.OK {
			t.Errorf("Finish of task %d: %v", ends[i].ID, s)
		}
	}
}

// workOff has four workers do all there is, and says how long it took. Who finds nothing looks again after poll.
func workOff(t testing.TB, c store.Config, n int, poll time.Duration) time.Duration {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	begin := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		s := mustOpen(t, c)
		w := joined(t, s)
		wg.Go(func() {
			for left.Load() > 0 {
				f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 20})
				if err != nil {
					t.Error(err)
					return
				}
				if len(f.Tasks) == 0 {
					time.Sleep(poll)
					continue
				}
				var ends []driver.Completion
				for _, x := range f.Tasks {
					ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: driver.Success})
				}
				got, err := s.Queue.Finish(t.Context(), w, ends)
				if err != nil {
					t.Error(err)
					return
				}
				for _, a := range got {
					if a != driver.OK {
						t.Errorf("a live worker's report: %v", a)
					}
				}
				left.Add(int64(-len(got)))
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// Four workers that want the same do not deadlock, and do each task once.
func TestWorkersShareWhatThereIs(t *testing.T) {
	t.Parallel()
	const n = 600
	for name, with := range map[string]func(i int) task.Spec{
		"plain":   func(int) task.Spec { return spec() },
		"limited": func(i int) task.Spec { return spec(limitOf(fmt.Sprint("l", i%20), 1)) },
		"one key": func(int) task.Spec { return spec(limitOf("l", 5)) },
	} {
		t.Run(name, func(t *testing.T) {
			address := testserver.MariaDB(t)
			c := queueConfig(t, address)
			s := mustOpen(t, c)
			var specs []task.Spec
			for i := range n {
				specs = append(specs, with(i))
			}
			begin := time.Now()
			enqueue(t, s.Queue, specs...)
			t.Logf("taken in: %.0f tasks/s", n/time.Since(begin).Seconds())
			t.Logf("worked: %.0f tasks/s", n/workOff(t, c, n, time.Millisecond).Seconds())
			r, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{})
			if err != nil || r.Repaired != 0 {
				t.Errorf("Maintain: %+v, %v", r, err)
			}
			subs, err := s.Tasks.Queues(t.Context())
			if err != nil || len(subs) != 1 || subs[0].Depth[task.Succeeded] != n {
				t.Errorf("in the end: %+v, %v", subs, err)
			}
		})
	}
}

// Batches that take the same unique keys at the same time, in any order, take each of them once.
// Holds: promises 16, 17, Q1.
func TestBatchesTakeEachKeyOnce(t *testing.T) {
	t.Parallel()
	const processes, rounds, keys = 4, 8, 20
	order := func(i, j int) int { return (j*[]int{1, 3, 7, 9}[i] + i) % keys }
	key := func(round, k int) string { return fmt.Sprint(round, " ", k) }
	c := queueConfig(t, testserver.MariaDB(t))
	var all [processes][rounds][]task.Enqueued
	var calls sync.WaitGroup
	for i := range processes {
		s := mustOpen(t, c)
		calls.Go(func() {
			for round := range rounds {
				batch := make([]task.Spec, keys)
				for j := range batch {
					batch[j] = spec(func(s *task.Spec) { s.Unique = &task.Unique{Key: key(round, order(i, j))} })
				}
				got, err := s.Queue.Enqueue(t.Context(), batch)
				if err != nil {
					t.Error(err)
					return
				}
				all[i][round] = make([]task.Enqueued, keys)
				for j, e := range got {
					all[i][round][order(i, j)] = e
				}
			}
		})
	}
	calls.Wait()
	if t.Failed() {
		return
	}
	s := mustOpen(t, c)
	for round := range rounds {
		for k := range keys {
			took, ids := 0, map[task.ID]bool{}
			for i := range processes {
				e := all[i][round][k]
				if ids[e.ID] = true; e.Answer == task.New {
					took++
				}
			}
			x, _, _, err := s.Tasks.Task(t.Context(), all[0][round][k].ID)
			if err != nil || took != 1 || len(ids) != 1 || x.Unique.Key != key(round, k) {
				t.Errorf("key %q: taken %d times, by %v, which has %+v, %v", key(round, k), took, ids, x.Unique, err)
			}
		}
	}
	db := raw(t, c.URL.String(), nil)
	if n := count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ?", c.Namespace); n != rounds*keys {
		t.Errorf("%d tasks, want %d", n, rounds*keys)
	}
}

// What a fetch found due, and another one has given since, is not made available a second time.
// Holds: promise 19.
func TestWhatRunsIsNotMadeDue(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, queueConfig(t, testserver.MariaDB(t)))
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	if n := len(fetchSome(t, s, w, 1).Tasks); n != 1 {
		t.Fatal(n)
	}
	if err := s.Queue.(queues).makeDue(t.Context(), list{int64(id)}); err != nil {
		t.Fatal(err)
	}
	if n := len(fetchSome(t, s, w, 1).Tasks); n != 0 {
		t.Error("a task that runs is given again")
	}
}
