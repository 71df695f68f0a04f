package counters

import (
	"cmp"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Admissions returns the counts for the answers to specs. A Client counts itself; a store's view of a caller's
// transaction counts in that transaction, so that a rollback leaves no trace of the counts either.
func Admissions(specs []task.Spec, answers []task.Enqueued) (counts []driver.Count) {
	minute := time.Now().UTC().Truncate(time.Minute)
	at := map[driver.Count]int{}
	eachAdmitted(specs, answers, func(queue, kind, name string, n int64) {
		c := driver.Count{Minute: minute, Queue: queue, Kind: kind, Name: name}
		i, there := at[c]
		if !there {
			i = len(counts)
			at[c], counts = i, append(counts, c)
		}
		counts[i].N += n
	})
	return counts
}

// eachAdmitted calls tell for the answers to specs, once for equal ones that follow each other.
func eachAdmitted(specs []task.Spec, answers []task.Enqueued, tell func(queue, kind, name string, n int64)) {
	n := int64(0)
	for i := range specs {
		s, name := &specs[i], admitted(&specs[i], answers[i])
		n++
		if i+1 < len(specs) && specs[i+1].Queue == s.Queue && specs[i+1].Kind == s.Kind && admitted(&specs[i+1], answers[i+1]) == name {
			continue
		}
		if name != "" {
			tell(s.Queue, s.Kind, name, n)
		}
		n = 0
	}
}

// admitted returns the name that an answer to s counts under; empty if it is not counted.
func admitted(s *task.Spec, e task.Enqueued) string {
	switch e.Answer {
	case task.Duplicate:
		return Duplicate + ":" + string(cmp.Or(s.Unique.Until, task.UntilFinished))
	case task.Updated:
		return Updated
	case task.Undecided:
		return ""
	}
	return Enqueued
}
