package tick_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// The registry is read to its end, also where the last page of a step is exactly full.
func TestTheRegistryIsReadToItsEnd(t *testing.T) {
	for _, n := range []int{0, 1, tick.MaxRows, tick.MaxRows + 1, 2 * tick.MaxRows} {
		s := memory.New(memory.Options{}).Store().Ticks
		var jobs []tick.JobRequest
		for i := range n {
			jobs = append(jobs, tick.JobRequest{Name: fmt.Sprintf("app/j%04d", i), Definition: "{}", Since: time.Now()})
		}
		for len(jobs) > 0 {
			k := min(len(jobs), tick.MaxRows)
			if _, err := s.SetJobs(t.Context(), jobs[:k]); err != nil {
				t.Fatal(err)
			}
			jobs = jobs[k:]
		}
		all, err := tick.Registry(t.Context(), s, "app/")
		if err != nil || len(all) != n {
			t.Errorf("%d of %d jobs, %v", len(all), n, err)
		}
	}
}
