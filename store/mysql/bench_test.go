package mysql

import (
	"fmt"
	"testing"

	"github.com/dibs-run/dibs/internal/testserver"
	"github.com/dibs-run/dibs/lease"
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
