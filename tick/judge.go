package tick

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// The rules of Store as functions of facts, written once: what happens to a request, and what a store writes for it.
// A store that decides in Go reads the facts, calls these functions and writes, all in one atomic step. PostgreSQL
// and MySQL decide in their statements; they call these functions for the answer, with the facts read afterwards
// (Verdict.After). Redis decides and answers in Lua. One table of cases tests all of them: internal/test/verdicts.

// Facts are what a store read about a tick, at an instant of its own clock. A zero field means that there is no such
// thing.
type Facts struct {
	Now time.Time
	// Tick is the row, with its Live.
	Tick Tick
	// Job is the registered definition, removed or not. Only claims use it.
	Job Job
	// Run is the run of the request; for a take, that of the row. Claims do not use it.
	Run run.Record
	// Live reports whether the lease that the request relies on is live. A close relies on none.
	Live bool
	// Gate reports whether the gate of a start without a tick is live. It is not used if the request names none.
	Gate bool
}

// A Verdict is how one item ends, and what the store writes for it.
type Verdict struct {
	Status Status
	// Tick and Run are the rows to write; nil: the row stays as it is. Instants are in µs.
	Tick *Tick
	Run  *run.Record
}

// After returns the status to answer if the store has already decided and written, and the facts were read
// afterwards. A row that was written looks like a repeated request, which won. If the verdict would still write
// something, the store has refused it, by an earlier reading of its clock: the answer is then refused.
func (v Verdict) After(refused Status) Status {
	if v.Tick != nil || v.Run != nil {
		return refused
	}
	return v.Status
}

// micro returns an instant as stores keep it: in UTC, to the microsecond; the zero time is unchanged.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// late is rule L1: the request reached the store after its sender stopped waiting for it.
func late(now, notAfter time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }

// JudgeClaim decides a claim: the first one wins for ever, and only above the mark (rule T4).
func JudgeClaim(req ClaimRequest, f Facts) Verdict {
	at, t := micro(req.At), &f.Tick
	switch {
	case t.State != "" && t.Lease == req.Lease && t.RunID == "" && t.Outcome == req.Outcome:
		return Verdict{Status: Won} // the answer to its first request was lost
	case late(f.Now, req.NotAfter):
		return Verdict{Status: Late}
	case t.State != "":
		return Verdict{Status: Taken}
	case f.Job.Generation != 0 && !req.Fill && !at.After(f.Job.Mark):
		return Verdict{Status: Settled}
	case req.Generation != 0 && (f.Job.Generation != req.Generation || !f.Job.Removed.IsZero()):
		return Verdict{Status: Differs}
	case at.After(f.Now.Add(req.Ahead)):
		return Verdict{Status: Early}
	case req.Outcome == "" && f.Job.Pause.Stops(at, f.Now):
		return Verdict{Status: Paused}
	case !f.Live:
		return Verdict{Status: Lapsed}
	}
	row := Tick{Job: req.Job, At: at, State: Claimed, Lease: req.Lease, Claimant: req.Claimant, Claimed: f.Now, Live: true}
	if req.Outcome != "" {
		row.State, row.Outcome, row.Reason, row.Ended = Closed, req.Outcome, req.Reason, f.Now
	}
	return Verdict{Status: Won, Tick: &row}
}

// JudgeTake decides a takeover.
func JudgeTake(req TakeRequest, f Facts) Verdict {
	t := &f.Tick
	switch {
	case t.State == Claimed && t.Lease == req.Lease:
		return Verdict{Status: Won} // repeated
	case late(f.Now, req.NotAfter):
		return Verdict{Status: Late}
	case t.State == "" || t.Lease != req.From || !takeable(t, req):
		return Verdict{Status: Taken}
	case !f.Live:
		return Verdict{Status: Lapsed}
	}
	// The row forgets its run: later reports of that run change only the run (rule T3).
	next := Tick{Job: t.Job, At: t.At, State: Claimed, Lease: req.Lease, Claimant: req.Claimant, Claimed: f.Now, Reruns: t.Reruns,
		Live: true}
	if req.Rerun {
		next.Reruns++
	}
	v := Verdict{Status: Won, Tick: &next}
	if t.State == Started && f.Run.ID != "" && f.Run.Outcome == "" {
		crashed := f.Run // nobody has heard of it any more, and says why
		crashed.Outcome, crashed.Inferred, crashed.Ended = run.Crashed, true, f.Now
		v.Run = &crashed
	}
	return v
}

// takeable is rule T2 for a claim that started nothing, rule T3 for what may be run again, and rule T4 for what
// never ran.
func takeable(t *Tick, req TakeRequest) bool {
	switch {
	case req.Fill:
		return t.Fillable()
	case t.State == Claimed:
		return !req.Rerun && !t.Live
	case t.State == Started:
		return req.Rerun && !t.Live
	}
	return req.Rerun && (t.Outcome == run.Lost || t.Outcome == run.Crashed || t.Outcome == run.Canceled)
}

// JudgeStart decides the start of a run.
func JudgeStart(req StartRequest, f Facts) Verdict {
	known, t, ticked := f.Run.ID != "", &f.Tick, !req.Run.Tick.IsZero()
	switch {
	case known && f.Run.Outcome == "" && f.Run.Owner == req.Lease.Owner && f.Run.Token == req.Lease.Token:
		return Verdict{Status: Won} // repeated
	case late(f.Now, req.NotAfter):
		return Verdict{Status: Late}
	case known, ticked && (t.State != Claimed || t.Lease != req.Claim):
		return Verdict{Status: Taken}
	case !f.Live, !ticked && req.Claim != lease.Ref{} && !f.Gate:
		return Verdict{Status: Lapsed}
	}
	r := AsStored(req.Run)
	r.Owner, r.Token = req.Lease.Owner, req.Lease.Token
	r.Outcome, r.Reason, r.Inferred, r.Ended = "", "", false, time.Time{}
	if r.Started.IsZero() {
		r.Started = f.Now
	}
	v := Verdict{Status: Won, Run: &r}
	if ticked {
		row := *t
		row.State, row.Lease, row.RunID, row.Started, row.Live = Started, req.Lease, req.Run.ID, f.Now, true
		v.Tick = &row
	}
	return v
}

// AsStored returns a run with all its instants as stores keep them. It shares nothing with r.
func AsStored(r run.Record) run.Record {
	r.Tick, r.Started, r.Ended = micro(r.Tick), micro(r.Started), micro(r.Ended)
	r.Attempts = slices.Clone(r.Attempts)
	if r.Cause != nil {
		c := *r.Cause
		r.Cause, c.Again = &c, micro(c.Again)
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Started, a.Ended = micro(a.Started), micro(a.Ended)
	}
	return r
}

// JudgeClose decides a report: of a run, and of its tick while the tick still names that run; or, without a run, of
// a claim that ran nothing. The release that comes with it is not judged here: it is always tried.
func JudgeClose(req CloseRequest, f Facts) Verdict {
	t, r := &f.Tick, req.Run
	if r.ID == "" {
		switch {
		case t.State == "" || t.Lease != req.Claim || t.RunID != "", t.State == Closed && t.Outcome != r.Outcome:
			return Verdict{Status: Taken}
		case t.State == Closed:
			return Verdict{Status: Won} // repeated
		}
		return Verdict{Status: Won, Tick: ended(*t, r, f.Now)}
	}
	known := f.Run
	switch {
	case known.ID == "" || known.Owner != r.Owner || known.Token != r.Token:
		return Verdict{Status: Taken}
	case !amends(known.Outcome, known.Inferred, r):
		if known.Outcome == r.Outcome && known.Inferred == r.Inferred {
			return Verdict{Status: Won} // repeated
		}
		return Verdict{Status: Taken}
	}
	r = AsStored(r)
	known.Outcome, known.Reason, known.Inferred, known.Attempts, known.Ended = r.Outcome, r.Reason, r.Inferred, r.Attempts, r.Ended
	if known.Ended.IsZero() {
		known.Ended = f.Now
	}
	v := Verdict{Status: Won, Run: &known}
	if t.State != "" && t.RunID == r.ID && amends(t.Outcome, t.Inferred, r) {
		v.Tick = ended(*t, r, f.Now)
	}
	return v
}

// amends reports whether a report changes what is known: the first outcome does, and the run's own report replaces
// an inferred outcome (rule T3).
func amends(known run.Outcome, inferred bool, r run.Record) bool {
	return known == "" || inferred && !r.Inferred
}

func ended(t Tick, r run.Record, now time.Time) *Tick {
	t.State, t.Outcome, t.Reason, t.Inferred, t.Ended = Closed, r.Outcome, r.Reason, r.Inferred, micro(r.Ended)
	if t.Ended.IsZero() {
		t.Ended = now
	}
	return &t
}
