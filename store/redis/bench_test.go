package redis

import (
	"fmt"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// A cycle is an acquire and a release, batched as a Keeper coalesces those of concurrent goroutines.
func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{1, 32, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := prepared(b, testserver.Redis(b))
			reqs, refs := make([]lease.AcquireRequest, n), make([]lease.Ref, n)
			b.ReportAllocs()
			for b.Loop() {
				for i := range reqs {
					reqs[i] = request(lease.Key(fmt.Sprintf("bench/%d", i)))
				}
				r, err := s.Leases.Acquire(b.Context(), reqs)
				if err != nil {
					b.Fatal(err)
				}
				for i, a := range r.Answers {
					if a.Status != lease.OK {
						b.Fatal(a.Status)
					}
					refs[i] = a.Record.Ref()
				}
				if _, err := s.Leases.Release(b.Context(), refs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "cycles/s")
		})
	}
}

func BenchmarkRenew(b *testing.B) {
	const n = maxBatch
	s, _ := prepared(b, testserver.Redis(b))
	var reqs []lease.AcquireRequest
	for i := range n {
		reqs = append(reqs, request(lease.Key(fmt.Sprintf("bench/%d", i))))
	}
	r, err := s.Leases.Acquire(b.Context(), reqs)
	if err != nil {
		b.Fatal(err)
	}
	renewals := make([]lease.RenewRequest, n)
	for i, a := range r.Answers {
		renewals[i] = lease.RenewRequest{Ref: a.Record.Ref(), TTL: ttl}
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Leases.Renew(b.Context(), renewals)
		if err != nil || r.Answers[n-1].Status != lease.OK {
			b.Fatal(r.Answers[n-1].Status, err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "renewals/s")
}
