package tick

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// Store is the contract that a store implements to keep ticks, in the same namespace and the same place as its
// leases (rule T9).
//
// Atomicity: each item of a batch is atomic by itself and independent of the others, and answer i is item i's; Close
// and Settle say what one item comprises. Items that are equal, or that ask for the same thing, are answered as if
// they had come one after the other. A batch may have any length: the store splits it into steps of suitable size,
// and an error of one step is the error of the call, though others may have been carried out. Each item's lease and
// not_after are checked by the store's own clock inside that same atomic step.
//
// Retries: a store never retries; after an error of the call, the result is unknown. Every method may be repeated:
// the first check is whether this caller has already won, so a repeated winner is answered Won even past its
// not_after, or after the lease that it relies on has lapsed.
//
// Concurrency: safe for any number of goroutines and processes.
type Store interface {
	// Claim inserts the tick for the first caller that asks; the first one wins for ever. With an Outcome in the
	// request the tick is claimed and closed in one step. Answers: Won, Taken, Settled, Early, Late, Differs, Paused
	// (never to a request with an Outcome), Lapsed (the claimant's own lease is not live).
	Claim(ctx context.Context, reqs []ClaimRequest) ([]Answer, error)

	// Take gives an unfinished tick whose lease is not live to another claimant (compare-and-set on From). Without
	// Rerun the tick must be Claimed. With Rerun it must be Started, or Closed as lost, crashed or canceled. With
	// Fill instead, it must be Closed as missed, unavailable or skipped, whatever its lease; never a range row, nor
	// a pause's tick.
	//
	// The row becomes Claimed. Its token is larger, because the new lease's is; with Rerun its Reruns grow by one.
	// If it was Started, its run row is closed as crashed, inferred and without a Reason, in the same step.
	//
	// Answers: Won, Taken (another claimant has it, or its lease is live), Late, Lapsed.
	Take(ctx context.Context, req TakeRequest) (Answer, error)

	// Start inserts the run row of each item and turns its tick from Claimed to Started, moving it under the item's
	// Lease; it is acknowledged before anything is executed (rule T1). For a run without a tick (Run.Tick zero) only
	// the run row is inserted. The item's Lease must be live. Answers: Won (also when repeated), Taken (fenced: no
	// longer this claim's), Late, Lapsed.
	Start(ctx context.Context, reqs []StartRequest) ([]Answer, error)

	// Close records outcomes: for each item the run row, the tick's row and the release of the lease are ONE atomic
	// step (rule T9). A run is closed only by the (id, owner, token) that started it, and its tick only while it
	// belongs to that run. The run's own later report amends an inferred outcome; if the tick was rerun (rule T3),
	// it amends only the run row. A second inferred outcome like the first one changes nothing, not even its Reason,
	// and is answered Won. Answers: Won, Taken (fenced; the release is still tried, conditional as ever).
	Close(ctx context.Context, reqs []CloseRequest) ([]Answer, error)

	// Orphans looks at unfinished ticks and finds those whose lease is not live. Its cost does not grow with the
	// ticks of other jobs, nor with closed ticks.
	Orphans(ctx context.Context, l Look) (Found, error)

	// Owed finds ticks of an app that may still have to be run (Tick.Owed). Its cost does not grow with the ticks of
	// other apps, nor with those that are older or not owed.
	Owed(ctx context.Context, l OwedLook) (Found, error)

	// Jobs lists registered jobs by name, including removed ones. Names that are not registered are left out.
	Jobs(ctx context.Context, q JobQuery) ([]Job, error)

	// SetJobs registers definitions. A new job gets generation 1. A changed definition gets the next generation,
	// Since = req.Since, and its mark is raised to Since − 1 µs if it was below, unless it has a Past: then the mark
	// stays. A change or removal with an Of applies only to that generation, while it is not removed. An unchanged
	// definition changes nothing, not even Since. For a new job Mark = Since − 1 µs, whatever its Past. A zero Since
	// means the store's now. A removal clears the Past. SetJobs returns the jobs as they are afterwards, item by
	// item.
	SetJobs(ctx context.Context, reqs []JobRequest) ([]Job, error)

	// Pause begins or ends a pause of a registered job, by the store's clock. Later claims are answered accordingly.
	// A pause that continues keeps its Since, and only the rest of it is replaced. It returns the job as it is
	// afterwards: zero, except for its name, if it is not registered or was removed.
	Pause(ctx context.Context, req PauseRequest) (Job, error)

	// Split replaces a range row by several that say the same about the same ticks, in one step, so that one of them
	// can be taken by itself. It does nothing, and answers Taken, if the row no longer has the Through and the Count
	// of Row; Won otherwise.
	Split(ctx context.Context, req SplitRequest) (Answer, error)

	// Settle inserts rows (each only if it does not exist) and raises the mark from From to To in one step. It does
	// nothing, and answers Taken, if the mark is no longer From or the Generation is another one; Won otherwise. The
	// store lowers To to just before the job's oldest unfinished tick above the mark (one below it was settled, and
	// is being run after all), and to before a range row that would cover a tick with a row of its own, or end above
	// To. Rows that end above the lowered To are left out, so that no tick has two outcomes. A store splits more
	// rows than fit into a step into several steps, each of which accounts for all ticks up to the mark that it
	// sets.
	Settle(ctx context.Context, req SettleRequest) (Answer, error)

	// Unsettle takes back, in one step, outcomes that ticks got ahead of the store's clock, which was fast and is
	// right again (rule L12). It deletes Rows and lowers the mark from From to To; with To = From the mark stays.
	// The definition's Since becomes To + 1 µs if it was later. A pause that was Resumed after the store's now ends
	// now; one without an end that began after it begins now, or at To + 1 µs if the mark is lowered. Unsettle does
	// nothing, and answers Taken, unless the mark is From and all of Rows are as they were read: each exists, goes
	// Through the same tick, begins after To, and was settled or is Foreseen. Taken means that another process was
	// faster, and that the caller must read again. Nor does it lower a mark that is not ahead of the store's now, or
	// to further than MaxBack before that. Won otherwise.
	Unsettle(ctx context.Context, req UnsettleRequest) (Answer, error)
}

// MaxBack is how far before the store's now Unsettle lowers a mark at most.
const MaxBack = 10 * time.Minute

// Status is how one item ended.
type Status uint8

// The statuses of an Answer.
const (
	// Won: done.
	Won Status = iota + 1
	// Taken: another process has it; Answer.Tick says which.
	Taken
	// Settled: the tick is at or below the job's high-water mark.
	Settled
	// Early: the tick is further ahead of the store's clock than the request allows.
	Early
	// Late: the request arrived past its NotAfter (rule L1).
	Late
	// Differs: the store holds another generation of the job's definition (rule T11).
	Differs
	// Lapsed: the lease that the request relies on is not live.
	Lapsed
	// Paused: the job is paused now, or the tick is within a pause that has ended.
	Paused
)

func (s Status) String() string {
	return [...]string{"none", "won", "taken", "settled", "early", "late", "differs", "lapsed", "paused"}[min(int(s), 8)]
}

// Answer is a store's answer to one item.
type Answer struct {
	Status Status
	// Tick is the row after the operation, if there is one.
	Tick Tick
	// Now is the store's time of the operation.
	Now time.Time
}

// ClaimRequest asks for one tick.
type ClaimRequest struct {
	Job string
	At  time.Time
	// Generation must be the registered one; 0 skips the check. The mark is checked either way, if the job is
	// registered.
	Generation int64
	Lease      lease.Ref // live, in this store; the claim lapses with it
	Claimant   lease.Holder
	// Ahead is how far At may be ahead of the store's now.
	Ahead    time.Duration
	NotAfter time.Time // as in lease.AcquireRequest
	// Outcome, if set, closes the tick at once: a tick that ran nothing.
	Outcome run.Outcome
	Reason  string
	// Fill claims a tick at or below the mark as well. The caller was answered Settled before, and has since seen
	// that no row accounts for the tick: below the mark, only claims like this one add rows.
	Fill bool
}

// TakeRequest takes over a tick.
type TakeRequest struct {
	Job      string
	At       time.Time
	From     lease.Ref // the lease that the row names
	Lease    lease.Ref // the newcomer's
	Claimant lease.Holder
	Rerun    bool
	Fill     bool
	NotAfter time.Time
}

// Fillable reports whether a tick that has an outcome may be run after all: it ended without a run, and not because
// somebody wanted that, as in a pause (rule T8).
func (t Tick) Fillable() bool {
	if t.State != Closed || !t.Through.IsZero() {
		return false
	}
	return t.Outcome == run.Missed || t.Outcome == run.Unavailable || t.Outcome == run.Skipped
}

// StartRequest starts a run.
type StartRequest struct {
	Run run.Record // Outcome empty; Owner and Token are Lease's
	// Claim is the lease that the tick's row names now. Without a tick it is a gate: another lease that must be
	// live, under which the run was found to be due (rule T10); zero: there is none.
	Claim    lease.Ref
	Lease    lease.Ref // the lease under which the run lives from here on
	NotAfter time.Time
}

// CloseRequest ends a run, a claim that ran nothing, or both.
type CloseRequest struct {
	// Run has the outcome. If its ID is empty, there is no run, only the tick of Job, At and Claim to close with
	// Run.Outcome and Run.Reason.
	Run run.Record
	// Claim is the lease that the tick's row names (the run's, once started). Ignored when
	// Run.Tick is zero.
	Claim lease.Ref
	// Release, unless its owner is zero, releases that lease in the same step.
	Release lease.Ref
}

// JobRequest registers one definition or, with Remove, ends the accounting of a job.
type JobRequest struct {
	Name       string
	Definition string
	Since      time.Time
	// Past is Job.Past for a changed definition: what the previous definition left open.
	Past string
	// Of is the generation that a change or a removal replaces; at any other generation nothing is changed. 0: any,
	// without a Past. A row that is new has the generation after it.
	Of     int64
	Remove bool
	// Mark, an instant after Since, means that the store has forgotten the row: it is made anew with this mark. Where
	// there is one, nothing is changed.
	Mark time.Time
}

// Apply returns the job after the request, at an instant of the store's clock.
func (r JobRequest) Apply(j Job, found bool, now time.Time) (_ Job, changed bool) {
	since := r.Since.UTC().Truncate(time.Microsecond)
	if r.Since.IsZero() {
		since = now
	}
	switch {
	case !found && r.Remove:
		return Job{Name: r.Name}, false // there is nothing to end
	case found && (!r.Mark.IsZero() || r.Of != 0 && (j.Generation != r.Of || !j.Removed.IsZero())):
		return j, false
	case r.Remove && j.Removed.IsZero():
		j.Removed, j.Past = since, ""
		return j, true
	case r.Remove || found && j.Definition == r.Definition && j.Removed.IsZero():
		return j, false
	}
	if !found {
		j.Generation, j.Mark = r.Of, r.Mark.UTC().Truncate(time.Microsecond)
	}
	j.Name, j.Definition, j.Past, j.Generation, j.Since, j.Removed = r.Name, r.Definition, r.Past, j.Generation+1, since, time.Time{}
	if before := since.Add(-time.Microsecond); (!found || r.Past == "") && j.Mark.Before(before) {
		j.Mark = before
	}
	return j, true
}

// PauseRequest begins a pause of a job or, with Resume, ends it.
type PauseRequest struct {
	Job string
	// Until ends the pause by itself; zero: it ends when somebody resumes the job.
	Until   time.Time
	By, Why string
	Resume  bool
}

// Apply returns the pause after the request, at an instant of the store's clock.
func (r PauseRequest) Apply(p Pause, now time.Time) Pause {
	on := p.Covers(now)
	switch {
	case r.Resume && on:
		p.Until, p.Resumed = now, true
	case !r.Resume && on:
		p.Until, p.Resumed, p.By, p.Why = r.Until, false, r.By, r.Why
	case !r.Resume:
		p = Pause{Since: now, Until: r.Until, By: r.By, Why: r.Why}
	}
	return p
}

// SplitRequest splits a range row.
type SplitRequest struct {
	// Row is the range as it was read.
	Row Tick
	// Parts, in order, cover the row: the first begins at Row.At, the last ends at Row.Through, and their counts add
	// up to Row.Count. Only At, Through and Count are read; the rest is the row's.
	Parts []Tick
}

// SettleRequest accounts for the ticks of (From, To] that nobody claimed.
type SettleRequest struct {
	Job      string
	From, To time.Time
	// Generation must be the registered one, so that after a change of the definition no process settles by the
	// previous one. 0 skips the check.
	Generation int64
	Rows       []Tick // Closed, with At, Through, Count, Outcome, Reason
}

// UnsettleRequest takes back outcomes of ticks after To.
type UnsettleRequest struct {
	Job      string
	From, To time.Time
	Rows     []Tick // as they were read; only At and Through count
}

// Back returns the job after it is settled only up to an earlier instant, or to the same, at an instant of the
// store's clock.
func (j Job) Back(to, now time.Time) Job {
	next := to.Add(time.Microsecond)
	begins := now
	if to.Before(j.Mark) {
		begins = next
	}
	if j.Mark = to; j.Since.After(next) {
		j.Since = next
	}
	switch p := &j.Pause; {
	case p.Until.IsZero() && p.Since.After(begins):
		p.Since = begins
	case p.Resumed && p.Until.After(now):
		if p.Until = now; p.Since.After(now) {
			p.Since = now
		}
	}
	return j
}

// Allows reports whether the request may change the job's mark, at an instant of the store's clock.
func (r UnsettleRequest) Allows(j Job, now time.Time) bool {
	lowers := r.From.After(now) && r.To.Before(r.From) && !r.To.Before(now.Add(-MaxBack))
	return j.Mark.Equal(r.From) && (lowers || r.To.Equal(r.From))
}

// Takes reports whether a row that ended at through when it was read may be deleted as it is now.
func (r UnsettleRequest) Takes(t Tick, through, now time.Time) bool {
	return t.State == Closed && t.At.After(r.To) && t.Through.Equal(through) && (t.Claimed.IsZero() || t.Foreseen(now))
}

// Foreseen reports whether a claimed tick got its outcome by a clock that was ahead of the store's now, without a
// run, and only because nobody would run it: its definition ended, its job was paused, or the store was unavailable.
// Such an outcome is not final before the tick's time has come (rule L12).
func (t Tick) Foreseen(now time.Time) bool {
	unrun := t.Outcome == run.Missed || t.Outcome == run.Paused || t.Outcome == run.Unavailable ||
		t.Outcome == run.Skipped && t.Reason == run.ReasonWindow
	return t.State == Closed && unrun && t.RunID == "" && t.Reruns == 0 && !t.Claimed.IsZero() && t.Ended.After(now)
}
