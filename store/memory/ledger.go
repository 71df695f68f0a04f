package memory

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A ledger has the rows of one job in the order of their instants, so that frequent questions (the latest rows, a few
// around an instant, the unfinished ones) do not walk through all rows. No two rows cover the same instant, so the
// order of their last ticks is the same.
type ledger struct {
	rows []tick.Tick
	open map[int64]bool // the unfinished ones, by At in µs
	owed map[int64]bool // those that are owed
}

// find is where the row of an instant is, or belongs.
func (l *ledger) find(at time.Time) (i int, found bool) {
	i = sort.Search(len(l.rows), func(i int) bool { return !l.rows[i].At.Before(at) })
	return i, i < len(l.rows) && l.rows[i].At.Equal(at)
}

func (l *ledger) put(t tick.Tick) {
	if i, found := l.find(t.At); found {
		l.rows[i] = t
	} else {
		l.rows = slices.Insert(l.rows, i, t)
	}
	mark(l.open, t.At, t.State != tick.Closed)
	mark(l.owed, t.At, t.Owed())
}

func mark(in map[int64]bool, at time.Time, there bool) {
	if us := at.UnixMicro(); there {
		in[us] = true
	} else {
		delete(in, us)
	}
}

// remove deletes a closed row.
func (l *ledger) remove(at time.Time) {
	if i, found := l.find(at); found {
		l.rows = slices.Delete(l.rows, i, i+1)
		delete(l.owed, at.UnixMicro())
	}
}

// latest are the rows that q selects, the latest first.
func (l *ledger) latest(q history.Query) (found []tick.Tick) {
	n := len(l.rows)
	if !q.To.IsZero() {
		n, _ = l.find(q.To)
	}
	first := sort.Search(n, func(i int) bool { return !l.rows[i].Last().Before(q.From) })
	found = make([]tick.Tick, 0, min(n-first, q.Max()))
	for n--; n >= first && len(found) < q.Max(); n-- {
		if q.RunID == "" || q.RunID == l.rows[n].RunID {
			found = append(found, l.rows[n])
		}
	}
	return found
}

// prune deletes the first closed rows that end before an instant and not after the mark, if there is one.
func (l *ledger) prune(before time.Time, mark *time.Time, most int) int {
	goes := func(t *tick.Tick) bool {
		return t.State == tick.Closed && t.Last().Before(before) && (mark == nil || !t.Last().After(*mark))
	}
	old, _ := l.find(before)
	end := 0 // behind the last one that goes
	for i := 0; i < old && most > 0; i++ {
		if goes(&l.rows[i]) {
			end, most = i+1, most-1
		}
	}
	gone := end // what stays of these rows moves up to the others, which are many and are not copied
	for i := end - 1; i >= 0; i-- {
		if t := &l.rows[i]; goes(t) {
			delete(l.owed, t.At.UnixMicro())
			continue
		}
		gone--
		l.rows[gone] = l.rows[i]
	}
	clear(l.rows[:gone])
	l.rows = l.rows[gone:]
	return gone
}

// runs are the runs of one job in the order of their starts, and those of one instant in that of their ids.
type runs []*run.Record

func compareRuns(x, y *run.Record) int {
	if c := x.Started.Compare(y.Started); c != 0 {
		return c
	}
	return strings.Compare(x.ID, y.ID)
}

func (b *Backend) putRun(r run.Record) {
	if old := b.runs[r.ID]; old != nil {
		*old = r // a run keeps its job and its start
		return
	}
	b.runs[r.ID] = &r
	all := b.runsOf[r.Job]
	i, _ := slices.BinarySearchFunc(all, &r, compareRuns)
	b.runsOf[r.Job] = slices.Insert(all, i, &r)
}

// latest are the runs that q selects, the latest start first.
func (all runs) latest(q history.Query) (found []run.Record) {
	found = make([]run.Record, 0, min(len(all), q.Max(), 10)) // mostly it is about the last few
	for _, r := range slices.Backward(all) {
		if r.Started.Before(q.From) || len(found) == q.Max() {
			break
		}
		if (q.To.IsZero() || r.Started.Before(q.To)) && (q.RunID == "" || q.RunID == r.ID) {
			found = append(found, tick.AsStored(*r))
		}
	}
	return found
}

// pruneRuns deletes a step of what ended before an instant; nothing that began later has.
func (b *Backend) pruneRuns(before time.Time) (n int) {
	for job, all := range b.runsOf {
		old, _ := slices.BinarySearchFunc(all, before, func(r *run.Record, at time.Time) int { return r.Started.Compare(at) })
		var kept runs
		for _, r := range all[:old] {
			if n == history.Step || r.Outcome == "" || !r.Ended.Before(before) {
				kept = append(kept, r)
				continue
			}
			delete(b.runs, r.ID)
			delete(b.outputs, r.ID)
			n++
		}
		if len(kept) < old {
			b.runsOf[job] = slices.Concat(kept, all[old:])
		}
	}
	return n
}
