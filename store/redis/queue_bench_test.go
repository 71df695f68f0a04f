package redis

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// BenchmarkTasks tells what the steps of a task's life cost, as time of the server's and of ours. It
// is time on a processor, so that it says something on a busy machine as well.
func BenchmarkTasks(b *testing.B) {
	for _, kind := range []string{"plain", "unique", "limited"} {
		for _, n := range []int{1, 16, 200} {
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) { benchTasks(b, kind, n) })
		}
	}
}

func benchTasks(b *testing.B, kind string, n int) {
	c := config(b, testserver.Redis(b))
	c.Init, c.TTL = true, time.Hour
	s := open(b, c)
	b.Cleanup(func() { sweep(b, c) })
	raw := rawClient(b, c)
	w := joined(b, s, time.Hour)
	used := func() (server, own time.Duration) {
		info := raw.InfoMap(b.Context(), "cpu").Val()["CPU"]
		for _, k := range []string{"used_cpu_user", "used_cpu_sys"} {
			var s float64
			fmt.Sscan(info[k], &s)
			server += time.Duration(s * float64(time.Second))
		}
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return server, time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var cost [3][2]time.Duration
	measure := func(i int, do func()) {
		s0, o0 := used()
		do()
		s1, o1 := used()
		cost[i][0] += s1 - s0
		cost[i][1] += o1 - o0
	}
	serial := 0
	const rounds = 20
	total := 0
	for b.Loop() {
		all := rounds * n
		total += all
		measure(0, func() {
			for range rounds {
				specs := make([]task.Spec, n)
				for i := range specs {
					serial++
					specs[i] = benchSpec(b, kind, serial)
				}
				if _, err := s.Queue.Enqueue(b.Context(), specs); err != nil {
					b.Fatal(err)
				}
			}
		})
		fetched := make([][]driver.Fetched, rounds)
		measure(1, func() {
			for i := range rounds {
				f, err := s.Queue.Fetch(b.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: n})
				if err != nil || len(f.Tasks) != n {
					b.Fatal(len(f.Tasks), err)
				}
				fetched[i] = f.Tasks
			}
		})
		measure(2, func() {
			for _, f := range fetched {
				ends := make([]driver.Completion, n)
				for i := range ends {
					ends[i] = driver.Completion{Ref: f[i].Ref, Verdict: driver.Success}
				}
				if a, err := s.Queue.Finish(b.Context(), w, ends); err != nil || a[n-1] != driver.OK {
					b.Fatal(a, err)
				}
			}
		})
	}
	for i, name := range []string{"enqueue", "fetch", "finish"} {
		b.ReportMetric(float64(cost[i][0].Nanoseconds())/1e3/float64(total), name+"-server-µs")
		b.ReportMetric(float64(cost[i][1].Nanoseconds())/1e3/float64(total), name+"-own-µs")
	}
}

func benchSpec(b *testing.B, kind string, i int) task.Spec {
	s := task.Spec{Queue: "q", Kind: "k", Args: json.RawMessage(`{"customer":4711}`)}
	switch kind {
	case "unique":
		s.Unique = &task.Unique{Key: fmt.Sprint(i)}
	case "limited":
		s.Limit = &task.Limit{Key: fmt.Sprint(i % 1000), Max: 10}
	}
	if err := s.Check(); err != nil {
		b.Fatal(err)
	}
	return s
}

// joined is a worker with a lease that lasts.
func joined(t testing.TB, s *store.Store, ttl time.Duration) lease.Ref {
	t.Helper()
	req := request(lease.Key("worker-" + lease.NewNonce().String()[:8]))
	req.TTL = ttl
	ref := acquire(t, s, req).Record.Ref()
	if err := s.Queue.Register(t.Context(), driver.Process{Lease: ref, Host: "h", PID: 1, Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	return ref
}
