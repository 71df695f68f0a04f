//go:build linux

package work

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What tasks without a limit cost while a hundred thousand are blocked behind one key, in the same queue and before
// them, beside what they cost alone: ten enqueued, fetched and finished. The two take turns.
func BenchmarkBesideACrowd(b *testing.B) {
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			alone, crowded := side(b, s.shared(b), 0), side(b, s.shared(b), 100_000)
			var took [2]time.Duration
			n := 0
			for b.Loop() {
				for i, turn := range []func(){alone, crowded} {
					began := time.Now()
					turn()
					took[i] += time.Since(began)
				}
				n++
			}
			b.ReportMetric(took[0].Seconds()*1e3/float64(n), "ms-alone")
			b.ReportMetric(took[1].Seconds()*1e3/float64(n), "ms-beside")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
		})
	}
}

// side prepares a namespace in which so many are blocked, and returns a turn.
func side(b *testing.B, address string, blocked int) func() {
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	s, err := open(b.Context(), fmt.Sprintf("%s%sttl=%s&namespace=crowd-%s", address, sep, ttl, lease.NewNonce().String()[:8]), true)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.Close)
	l, err := k.Acquire(b.Context(), lease.Want{Key: lease.OnceKey()})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Queue.Register(b.Context(), driver.Process{Lease: l.Ref(), Queues: []string{"q"}, Slots: 10}); err != nil {
		b.Fatal(err)
	}
	enqueue := func(n int, t task.Spec) {
		for ; n > 0; n -= 1000 {
			specs := make([]task.Spec, min(n, 1000))
			for i := range specs {
				specs[i] = t
			}
			if _, err := s.Queue.Enqueue(b.Context(), specs); err != nil {
				b.Fatal(err)
			}
		}
	}
	fetch := func(want int) []driver.Fetched {
		f, err := s.Queue.Fetch(b.Context(), driver.FetchRequest{Worker: l.Ref(), NotAfter: k.NotAfter(), Queues: []string{"q"}, Max: 10, Suspects: true, Crashers: true})
		if err != nil || len(f.Tasks) != want {
			b.Fatalf("fetched %d, want %d: %v", len(f.Tasks), want, err)
		}
		return f.Tasks
	}
	plain := task.Spec{Queue: "q", Kind: "k", Args: json.RawMessage("{}")}
	if blocked > 0 {
		limited := plain
		limited.Limit = &task.Limit{Key: "one"}
		enqueue(blocked, limited)
		fetch(1) // it has the slot for good
	}
	return func() {
		enqueue(10, plain)
		var ends []driver.Completion
		for _, t := range fetch(10) {
			ends = append(ends, driver.Completion{Ref: t.Ref, Verdict: driver.Success, Outcome: "succeeded", Started: time.Now(), Ended: time.Now()})
		}
		if _, err := s.Queue.Finish(b.Context(), l.Ref(), ends); err != nil {
			b.Fatal(err)
		}
	}
}
