package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A fetch that goes on with an untidy limit while slots are held back makes nothing ready that it has made
// wait, and finds no wrong queue later.
// Holds: Q5.
func TestWhatIsHeldBackStaysWhereItIs(t *testing.T) {
	t.Parallel()
	for n := 11; n < 20; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r, _, raw, prefix := probedRampage(t, 10)
			hold := func(until time.Time) {
				if err := raw.HSet(t.Context(), prefix+"meta", "hold_until", until.UnixMicro()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			fetch := func() driver.Fetch {
				t.Helper()
				f, err := r.s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: r.worker, Queues: []string{"a"}, Max: 30, Suspects: true, Crashers: true})
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			specs := make([]task.Spec, n)
			for i := range specs {
				specs[i] = task.Spec{Queue: "a", Kind: "k", Args: []byte("null"), Limit: &task.Limit{Key: "l", Max: 50}}
			}
			if _, err := r.s.Queue.Enqueue(t.Context(), specs); err != nil {
				t.Fatal(err)
			}
			if _, err := r.s.Tasks.SetLimit(t.Context(), specs[0].Limit.Hash("k"), 1, "t"); err != nil {
				t.Fatal(err)
			}
			hold(time.Now().Add(10 * time.Minute))
			for range 4 {
				f := fetch()
				if len(f.Tasks) > 0 {
					t.Fatalf("given meanwhile: %+v", f.Tasks)
				}
				if wait := f.NextDue.Sub(f.Now); wait < time.Second {
					t.Errorf("asked again in %v", wait)
				}
				audit(t, r.s, raw, prefix)
			}
			if _, err := r.s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpMove, IDs: []task.ID{2}, Queue: "b"}); err != nil {
				t.Fatal(err)
			}
			hold(time.UnixMicro(1))
			for range 40 {
				f := fetch()
				if len(f.Tasks) > 1 {
					t.Fatalf("%d under a limit of one", len(f.Tasks))
				}
				for _, x := range f.Tasks {
					if x.ID == 2 {
						t.Errorf("a fetch of queue a gave task 2 of queue b")
					}
					if _, err := r.s.Queue.Finish(t.Context(), r.worker, []driver.Completion{{Ref: x.Ref, Verdict: driver.Success}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			audit(t, r.s, raw, prefix)
		})
	}
}
