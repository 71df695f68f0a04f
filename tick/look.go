package tick

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// MaxRows bounds the rows, of ticks or of jobs, that a store reads in one step. A caller that needs more
// continues in the next step, from where this one ended.
const MaxRows = 500

// bounded returns the limit of one step.
func bounded(limit int) int {
	if limit <= 0 {
		return MaxRows
	}
	return min(limit, MaxRows)
}

// A Spot identifies a tick. The zero Spot identifies none.
type Spot struct {
	Job string
	At  time.Time
}

// Spot returns the Spot of t.
func (t Tick) Spot() Spot { return Spot{t.Job, t.At} }

// A Look selects unfinished ticks, in the order of their jobs and instants.
type Look struct {
	// Job is one job's name; otherwise Prefix is how names begin ("": all).
	Job, Prefix string
	// After is where the last step ended; zero: from the beginning.
	After Spot
	// Limit is how many rows are read, at most MaxRows, which is the default.
	Limit int
}

// Max returns the effective limit.
func (l Look) Max() int { return bounded(l.Limit) }

// Range returns the range of names, [from, to); an empty to is no bound.
func (l Look) Range() (from, to string) {
	if l.Job != "" {
		return l.Job, l.Job + "\x00"
	}
	return l.Prefix, beyond(l.Prefix)
}

// AfterAt returns the instant of After, in µs; if there is none, one before all others.
func (l Look) AfterAt() int64 {
	if (l.After == Spot{}) {
		return math.MinInt64
	}
	return l.After.At.UnixMicro()
}

// beyond returns the smallest name that is larger than all with the prefix; empty if there is none.
func beyond(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// An OwedLook selects ticks of one app that are owed: the latest first, and those of one instant in the reverse
// order of their jobs.
type OwedLook struct {
	App string
	// From is the first instant.
	From time.Time
	// After and Limit are as in Look.
	After Spot
	Limit int
}

// Max returns the effective limit.
func (l OwedLook) Max() int { return bounded(l.Limit) }

// AfterAt returns the instant of After, in µs; if there is none, one after all others.
func (l OwedLook) AfterAt() int64 {
	if (l.After == Spot{}) {
		return math.MaxInt64
	}
	return l.After.At.UnixMicro()
}

// Found is the result of one step.
type Found struct {
	Ticks []Tick
	// Next is where the next step continues; zero: there is no more.
	Next Spot
}

// More reports whether there is more.
func (f Found) More() bool { return f.Next != Spot{} }

// Ended makes the result of a step with the given limit that has read these rows. keep chooses the rows to return.
func Ended(read []Tick, limit int, keep func(Tick) bool) (f Found) {
	for _, t := range read {
		if keep(t) {
			f.Ticks = append(f.Ticks, t)
		}
	}
	if len(read) == limit {
		f.Next = read[limit-1].Spot()
	}
	return f
}

// Orphaned reports whether no live process has an unfinished tick.
func (t Tick) Orphaned() bool { return !t.Live }

// Owed reports whether a tick that was claimed here may still have to be run, or taken back: its run was lost,
// crashed or canceled (rule T3); it ended without a run, and nobody wanted that (rule T8); or a clock that was fast
// may have ended it (rule L12). The server of the job decides. A store only finds such ticks without reading all
// others.
func (t Tick) Owed() bool {
	if t.State != Closed || t.Lease.Owner == (lease.Nonce{}) {
		return false
	}
	switch t.Outcome {
	case run.Lost, run.Crashed, run.Canceled, run.Missed, run.Unavailable, run.Paused:
		return true
	case run.Skipped:
		return t.Reason == run.ReasonWindow
	}
	return false
}

// AppOf returns the app of a job: its name before the first slash; "" if there is no slash.
func AppOf(job string) string {
	app, _, found := strings.Cut(job, "/")
	if !found {
		return ""
	}
	return app
}

// PerJob returns the rows of each job, in the order in which they came: answer i for job i. No row comes twice.
func PerJob(rows []Tick, jobs []string) [][]Tick {
	of := map[string][]Tick{}
	for _, t := range rows {
		of[t.Job] = append(of[t.Job], t)
	}
	all := make([][]Tick, len(jobs))
	for i, job := range jobs {
		all[i] = of[job]
	}
	return all
}

// A JobQuery selects registered jobs, by name.
type JobQuery struct {
	// Names are exact, at most MaxRows. None: Prefix is how names begin ("": all).
	Names  []string
	Prefix string
	// After is the last name of the step before; "": from the beginning. Limit is as in Look. Neither applies to
	// Names.
	After string
	Limit int
}

// Max returns the effective limit.
func (q JobQuery) Max() int { return bounded(q.Limit) }

// Range is as in Look; it does not apply to Names.
func (q JobQuery) Range() (from, to string) { return q.Prefix, beyond(q.Prefix) }

// Registry reads all registered jobs whose name begins with prefix, step by step.
func Registry(ctx context.Context, s Store, prefix string) (all []Job, err error) {
	for q := (JobQuery{Prefix: prefix}); ; {
		page, err := s.Jobs(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < q.Max() {
			return all, nil
		}
		q.After = page[len(page)-1].Name
	}
}
