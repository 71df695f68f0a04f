//go:build linux

package file

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// BenchmarkRun is all that the store does for a run without a tick, short of the import of its
// line, which comes later and mostly elsewhere.
func BenchmarkRun(b *testing.B) {
	s := openAt(b, b.TempDir())
	journal := inside(s).leases.journal
	for b.Loop() {
		ran(b, s, "k")
		if journal.size() > journalLong/2 {
			b.StopTimer()
			_ = os.Remove(journal.path)
			b.StartTimer()
		}
	}
}

// BenchmarkImport is the cost of a line.
func BenchmarkImport(b *testing.B) {
	s := openAt(b, b.TempDir())
	for b.Loop() {
		b.StopTimer()
		r := run.Record{ID: run.NewID(), Job: "j", Command: "true", Outcome: run.Succeeded, Started: time.Now(), Ended: time.Now()}
		if err := inside(s).leases.journal.append(r); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if inside(s).leases.journal.size() > journalLong/2 {
			if err := inside(s).catchUp(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	c := configAt(b.TempDir(), true)
	for b.Loop() {
		s, err := OpenConfig(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		_ = s.Close()
	}
}

func BenchmarkRenew(b *testing.B) {
	s := openAt(b, b.TempDir())
	req := []lease.RenewRequest{{Ref: granted(b, s, "k"), TTL: lease.DefaultTTL}}
	for b.Loop() {
		if r, err := s.Leases.Renew(context.Background(), req); err != nil || r.Answers[0].Status != lease.OK {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkClaim includes its sync to the disk.
func BenchmarkClaim(b *testing.B) {
	s := openAt(b, b.TempDir())
	ref, at := granted(b, s, "k"), time.Now()
	for b.Loop() {
		at = at.Add(-time.Second)
		a, err := s.Ticks.Claim(context.Background(), []tick.ClaimRequest{{Job: "j", At: at, Lease: ref}})
		if err != nil || a[0].Status != tick.Won {
			b.Fatal(a, err)
		}
	}
}
