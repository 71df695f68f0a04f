package mysql

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

func requests(n int) (reqs []lease.AcquireRequest) {
	for i := range n {
		reqs = append(reqs, request(lease.Key(fmt.Sprintf("bench/%05d", i))))
	}
	return reqs
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, n := range []int{1, 32, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mustOpen(b, config(b, testserver.MariaDB(b)))
			for b.Loop() {
				got, err := s.Leases.Acquire(b.Context(), requests(n))
				if err != nil {
					b.Fatal(err)
				}
				var refs []lease.Ref
				for _, a := range got.Answers {
					refs = append(refs, a.Record.Ref())
				}
				if _, err := s.Leases.Release(b.Context(), refs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "leases/s")
		})
	}
}

func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{1, 500, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mustOpen(b, config(b, testserver.MariaDB(b)))
			got, err := s.Leases.Acquire(b.Context(), requests(n))
			if err != nil {
				b.Fatal(err)
			}
			var reqs []lease.RenewRequest
			for _, a := range got.Answers {
				reqs = append(reqs, lease.RenewRequest{Ref: a.Record.Ref(), TTL: long})
			}
			for b.Loop() {
				if _, err := s.Leases.Renew(b.Context(), reqs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "leases/s")
		})
	}
}

// Tasks that do nothing, through four workers that share one machine with the server.
func BenchmarkWork(b *testing.B) {
	const n = 1000
	for _, x := range []struct {
		name string
		spec func(i int) task.Spec
	}{
		{"plain", func(int) task.Spec { return spec() }},
		{"20 limits of 1", func(i int) task.Spec { return spec(limitOf(fmt.Sprint("l", i%20), 1)) }},
		{"200 limits of 1", func(i int) task.Spec { return spec(limitOf(fmt.Sprint("l", i%200), 1)) }},
		{"1 limit of 5", func(int) task.Spec { return spec(limitOf("l", 5)) }},
		{"1 limit of 1", func(int) task.Spec { return spec(limitOf("l", 1)) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			var specs []task.Spec
			for i := range n {
				specs = append(specs, x.spec(i))
			}
			var took time.Duration
			for b.Loop() {
				c := queueConfig(b, testserver.MariaDB(b))
				enqueue(b, mustOpen(b, c).Queue, specs...)
				took += workOff(b, c, n, 10*time.Millisecond)
			}
			b.ReportMetric(float64(b.N*n)/took.Seconds(), "tasks/s")
		})
	}
}

// Plain tasks, alone and together.
func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mustOpen(b, queueConfig(b, testserver.MariaDB(b)))
			specs := slices.Repeat([]task.Spec{spec()}, n)
			for b.Loop() {
				enqueue(b, s.Queue, specs...)
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
