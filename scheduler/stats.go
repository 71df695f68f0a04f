package scheduler

import (
	"fmt"
	"sync/atomic"

	"github.com/dibs-run/dibs/run"
)

// Stats count what a server saw. All counters only grow.
type Stats struct {
	won, raced, ran, failed, skipped, unavailable, taken, settled, paused atomic.Int64
}

func (s *Stats) count(r Result) {
	switch {
	case r.Run.ID != "" && r.Outcome == run.Succeeded:
		s.ran.Add(1)
	case r.Run.ID != "" && r.Outcome == run.Unavailable:
		s.unavailable.Add(1)
	case r.Run.ID != "":
		s.ran.Add(1)
		s.failed.Add(1)
	case r.Outcome == run.Skipped:
		s.skipped.Add(1)
	}
}

// String returns the summary that a server prints when it ends.
func (s *Stats) String() string {
	return fmt.Sprintf("%s won, %d raced by others, %d run (%d not succeeded), %d skipped, %d taken over, %d settled, %d paused, %d unavailable",
		ticks(int(s.won.Load())), s.raced.Load(), s.ran.Load(), s.failed.Load(), s.skipped.Load(), s.taken.Load(), s.settled.Load(), s.paused.Load(), s.unavailable.Load())
}
