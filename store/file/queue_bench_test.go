//go:build linux

package file

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// One task through the queue, in batches of 500: enqueued, fetched, finished.
func BenchmarkQueue(b *testing.B) {
	for name, with := range map[string]func(*task.Spec){
		"plain": func(*task.Spec) {},
		"limit": func(s *task.Spec) { s.Limit = &task.Limit{Key: "x", Max: 10} },
	} {
		b.Run(name, func(b *testing.B) { benchmarkQueue(b, with) })
	}
}

func benchmarkQueue(b *testing.B, with func(*task.Spec)) {
	c, err := store.Parse(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	c.Init = true
	s, err := OpenConfig(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r, err := s.Leases.Acquire(b.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce()}, TTL: 15 * time.Second}})
	if err != nil {
		b.Fatal(err)
	}
	worker := r.Answers[0].Record.Ref()
	const batch = 500
	specs := make([]task.Spec, batch)
	for i := range specs {
		specs[i] = task.Spec{Kind: "k"}
		with(&specs[i])
		if err := specs[i].Check(); err != nil {
			b.Fatal(err)
		}
	}
	var times [3]time.Duration
	for b.Loop() {
		at := time.Now()
		step := func(i int, err error) {
			if err != nil {
				b.Fatal(err)
			}
			times[i] += time.Since(at)
			at = time.Now()
		}
		_, err := s.Queue.Enqueue(b.Context(), specs)
		step(0, err)
		f, err := s.Queue.Fetch(b.Context(), driver.FetchRequest{Worker: worker, Queues: []string{task.DefaultQueue}, Max: batch})
		step(1, err)
		ends := make([]driver.Completion, len(f.Tasks))
		for i := range ends {
			ends[i] = driver.Completion{Ref: f.Tasks[i].Ref, Verdict: driver.Success}
		}
		_, err = s.Queue.Finish(b.Context(), worker, ends)
		step(2, err)
		if _, err := s.Leases.Renew(b.Context(), []lease.RenewRequest{{Ref: worker, TTL: 15 * time.Second}}); err != nil {
			b.Fatal(err)
		}
	}
	for i, what := range []string{"enqueue", "fetch", "finish"} {
		b.ReportMetric(float64(times[i].Microseconds())/float64(b.N*batch), what+"-µs/task")
	}
	b.ReportMetric(0, "ns/op")
}
