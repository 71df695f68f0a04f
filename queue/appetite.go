package queue

import "time"

// mostFetched is how many bytes of tasks one fetch asks for at most. The answer travels within an RPC timeout, and
// other calls use the same link.
const mostFetched = 2 << 20

// An appetite bounds what one fetch asks for. A fetch that got no answer may have asked for more than the link carries
// in time: the next one asks for half, and tasks are never asked for in vain for ever.
type appetite struct {
	tasks, bytes int
	fed          int // answers in a row since the last change
	slow         int // how many slow ones double it: more after each silence
}

func newAppetite() appetite { return appetite{tasks: maxBatch, bytes: mostFetched, slow: 1} }

// starve halves the appetite, after a fetch that was not answered.
func (a *appetite) starve() {
	*a = appetite{tasks: max(a.tasks/2, 1), bytes: max(a.bytes/2, 1), slow: min(10*a.slow, 1000)}
}

// feed doubles the appetite again if an answer leaves room for that: it took less than a quarter of what it may, or
// many came in a row.
func (a *appetite) feed(took, most time.Duration) {
	quick := took < most/4
	if quick {
		a.slow = 1
	}
	if a.fed++; quick || a.fed >= max(a.slow, 10) {
		*a = appetite{tasks: min(2*a.tasks, maxBatch), bytes: min(2*a.bytes, mostFetched), slow: a.slow}
	}
}

// mostReported bounds the texts of the ends that one call reports.
const mostReported = 1 << 20

// weight is about how many bytes the report of an end has.
func (e *end) weight() int { return 100 + len(e.Error) + len(e.Reason) }
