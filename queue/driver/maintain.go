package driver

import (
	"time"

	"github.com/dibs-run/dibs/task"
)

// MaintainRequest says what Maintain may delete.
type MaintainRequest struct {
	// Keep is how long tasks of a final state are kept; tasks of a state that is not named are kept for ever. A task
	// whose unique window is open stays (rule Q1).
	Keep map[task.State]time.Duration
	// Max bounds the number of tasks that are touched. The default is the store's own bound, 1,000 at most.
	Max int
}

// Maintained is what Maintain did.
type Maintained struct {
	Now time.Time
	// Rescued counts tasks of dead workers that are available again, or canceled if they were asked to stop; Crashed
	// counts those that have used up their crash budget.
	Rescued, Crashed int
	// Expired were discarded; Due became available; Freed are windows that ended; Deleted were past their retention.
	Expired, Due, Freed, Deleted int
	// Repaired counts slots and promotions that were wrong. It is 0 unless there is a fault.
	Repaired int
	// Dead are the workers whose tasks were rescued; their Running is the number of these tasks.
	Dead []Process
	// More means that the bound was reached.
	More bool
}

// Count is an increment of one of the store's counters, which are kept per minute of Minute.
type Count struct {
	Minute      time.Time
	Queue, Kind string
	// Name is what is counted: see the names of package queue/counters.
	Name string
	N    int64
}
