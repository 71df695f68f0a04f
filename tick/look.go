package tick

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// MostLooked is how many rows one step of a store looks at, at most: of ticks, or of jobs. A caller that needs more
// goes on in the next step, from where this one ended.
const MostLooked = 500

// bounded is the limit of one step.
func bounded(limit int) int {
	if limit <= 0 {
		return MostLooked
	}
	return min(limit, MostLooked)
}

// A Spot names a tick. The zero Spot names none.
type Spot struct {
	Job string
	At  time.Time
}

// Spot names t.
func (t Tick) Spot() Spot { return Spot{t.Job, t.At} }

// A Look selects unfinished ticks, in the order of their jobs and instants.
type Look struct {
	// Job is one job's name; else Prefix is how names begin ("": all).
	Job, Prefix string
	// After is where the last step ended; zero: from the beginning.
	After Spot
	// Limit is how many are looked at, at most MostLooked, which is the default.
	Limit int
}

// Max is the effective limit.
func (l Look) Max() int { return bounded(l.Limit) }

// Range are the names in question, [from, to); an empty to is no bound.
func (l Look) Range() (from, to string) {
	if l.Job != "" {
		return l.Job, l.Job + "\x00"
	}
	return l.Prefix, beyond(l.Prefix)
}

// AfterAt is the instant of After, in µs; before all others where there is none.
func (l Look) AfterAt() int64 {
	if (l.After == Spot{}) {
		return math.MinInt64
	}
	return l.After.At.UnixMicro()
}

// beyond is the smallest name that is larger than all with the prefix; empty where there is none.
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
	// After and Limit are Look's.
	After Spot
	Limit int
}

// Max is the effective limit.
func (l OwedLook) Max() int { return bounded(l.Limit) }

// AfterAt is the instant of After, in µs; after all others where there is none.
func (l OwedLook) AfterAt() int64 {
	if (l.After == Spot{}) {
		return math.MaxInt64
	}
	return l.After.At.UnixMicro()
}

// Found is what one step found.
type Found struct {
	Ticks []Tick
	// Next is where the next step goes on; zero: there is no more.
	Next Spot
}

// More says whether there is more.
func (f Found) More() bool { return f.Next != Spot{} }

// Ended makes the answer of a step that was to look at limit rows and has read these. keep chooses those to return.
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

// Dead says whether an unfinished tick is an orphan.
func Dead(t Tick) bool { return !t.Live }

// Owed says whether a tick that was claimed here may still have to be run, or taken back: its run was lost, crashed
// or canceled (rule T3); it ended without a run, and not by anybody's wish (rule T8); or a clock that was fast may
// have ended it (rule L12). The server of the job decides. A store only finds such ticks without looking at all
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

// AppOf is the application of a job: its name before the first slash; "" where there is none.
func AppOf(job string) string {
	app, _, found := strings.Cut(job, "/")
	if !found {
		return ""
	}
	return app
}

// A JobQuery selects registered jobs, by name.
type JobQuery struct {
	// Names are exact, at most MostLooked. None: Prefix is how names begin ("": all).
	Names  []string
	Prefix string
	// After is the last name of the step before; "": from the beginning. Limit is Look's. Neither is for Names.
	After string
	Limit int
}

// Max is the effective limit.
func (q JobQuery) Max() int { return bounded(q.Limit) }

// Range is Look's; not for Names.
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
