package verdicts

import (
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Settling is a request to settle, what it meets, and how far it comes.
type Settling struct {
	Name  string
	Ask   tick.SettleRequest
	Job   tick.Job    // zero: not registered
	Above []tick.Tick // claimed ticks after the mark, by instant
	Want  tick.Status
	// Mark is the job's then, and Inserted are rows of Ask, by their places.
	Mark     time.Time
	Inserted []int
}

// Minute is the nth minute after the mark of every settling.
func Minute(n int) time.Time { return Ago(60).Add(time.Duration(n) * time.Minute) }

func before(n int) time.Time { return Minute(n).Add(-time.Microsecond) }

// span is a row of ticks that nobody claimed.
func span(from, through int) tick.Tick {
	t := settled(run.Missed)
	if t.At, t.Count = Minute(from), through-from+1; t.Count > 1 {
		t.Through = Minute(through)
	}
	return t
}

func single(n int) tick.Tick { return span(n, n) }

// Settlings is the table of settling: mark and rows (rule T4).
func Settlings() []Settling {
	job := tick.Job{Name: Job, Generation: 1, Mark: Minute(0)}
	ask := func(to int, rows ...tick.Tick) tick.SettleRequest {
		return tick.SettleRequest{Job: Job, From: Minute(0), To: Minute(to), Generation: 1, Rows: rows}
	}
	claimed := func(n int, o run.Outcome) []tick.Tick {
		t := claimedBy(Mine)
		if o != "" {
			t = closedBy(Mine, o)
		}
		t.Job, t.At = Job, Minute(n)
		return []tick.Tick{t}
	}
	elsewhere, changed, any := ask(9, single(1)), ask(9, single(1)), ask(9, single(1))
	elsewhere.From, changed.Generation, any.Generation = Minute(2), 7, 0
	return []Settling{
		{Name: "all of it", Ask: ask(9, single(1), span(3, 8)), Job: job,
			Want: tick.Won, Mark: Minute(9), Inserted: []int{0, 1}},
		{Name: "nothing", Ask: ask(9), Job: job, Want: tick.Won, Mark: Minute(9)},
		{Name: "from another mark", Ask: elsewhere, Job: job, Want: tick.Taken, Mark: Minute(0)},
		{Name: "of another generation", Ask: changed, Job: job, Want: tick.Taken, Mark: Minute(0)},
		{Name: "of any generation", Ask: any, Job: job, Want: tick.Won, Mark: Minute(9), Inserted: []int{0}},
		{Name: "of a job that is not registered", Ask: any, Want: tick.Taken},
		{Name: "up to an unfinished tick", Ask: ask(9, single(1), single(7)), Job: job, Above: claimed(5, ""),
			Want: tick.Won, Mark: before(5), Inserted: []int{0}},
		{Name: "past a finished tick", Ask: ask(9, single(1), single(7)), Job: job, Above: claimed(5, run.Skipped),
			Want: tick.Won, Mark: Minute(9), Inserted: []int{0, 1}},
		{Name: "a tick that has a row", Ask: ask(9, single(1), single(5)), Job: job, Above: claimed(5, run.Skipped),
			Want: tick.Won, Mark: Minute(9), Inserted: []int{0}},
		{Name: "a range over a finished tick", Ask: ask(9, single(1), span(3, 8)), Job: job, Above: claimed(5, run.Skipped),
			Want: tick.Won, Mark: before(3), Inserted: []int{0}},
		{Name: "a range that begins at a finished tick", Ask: ask(9, single(1), span(5, 8)), Job: job, Above: claimed(5, run.Skipped),
			Want: tick.Won, Mark: before(5), Inserted: []int{0}},
		{Name: "a range that ends at a finished tick", Ask: ask(9, single(1), span(3, 5)), Job: job, Above: claimed(5, run.Skipped),
			Want: tick.Won, Mark: before(3), Inserted: []int{0}},
		{Name: "a range over an unfinished tick", Ask: ask(9, single(1), span(3, 8)), Job: job, Above: claimed(5, ""),
			Want: tick.Won, Mark: before(3), Inserted: []int{0}},
		{Name: "a range up to the end", Ask: ask(8, single(1), span(3, 8)), Job: job,
			Want: tick.Won, Mark: Minute(8), Inserted: []int{0, 1}},
		{Name: "a range beyond the end", Ask: ask(9, single(1), span(3, 12)), Job: job,
			Want: tick.Won, Mark: before(3), Inserted: []int{0}},
		// Were a mark lowered before one range only, no row would account for the ticks of the other, below the mark.
		{Name: "ranges that overlap at the end", Ask: ask(15, single(1), span(5, 12), span(10, 20)), Job: job,
			Want: tick.Won, Mark: before(5), Inserted: []int{0}},
		{Name: "ranges that overlap at the end, the later one first", Ask: ask(15, span(10, 20), span(5, 12), single(1)), Job: job,
			Want: tick.Won, Mark: before(5), Inserted: []int{2}},
		{Name: "ranges that meet at the end", Ask: ask(15, single(1), span(5, 10), span(10, 20)), Job: job,
			Want: tick.Won, Mark: before(5), Inserted: []int{0}},
		{Name: "a chain of ranges", Ask: ask(15, single(1), span(2, 6), span(5, 12), span(10, 20)), Job: job,
			Want: tick.Won, Mark: before(2), Inserted: []int{0}},
		{Name: "a range within another", Ask: ask(9, single(1), span(3, 12), span(5, 7)), Job: job,
			Want: tick.Won, Mark: before(3), Inserted: []int{0}},
		{Name: "ranges beside each other", Ask: ask(15, single(1), span(2, 9), span(10, 20)), Job: job,
			Want: tick.Won, Mark: before(10), Inserted: []int{0, 1}},
		{Name: "a range that is cut by an unfinished tick's mark and another's", Ask: ask(15, single(1), span(3, 6), span(5, 9)), Job: job,
			Above: claimed(8, ""), Want: tick.Won, Mark: before(3), Inserted: []int{0}},
	}
}
