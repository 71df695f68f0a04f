// Package verdicts is the table of cases that every telling of tick's rules is held to: the functions of package tick
// (TestVerdicts), which memory, the directory, MySQL and PostgreSQL ask, and what each store does when it is brought
// into the facts of a case (the suite's "every case of the table ends as tick's rules say"), be it in Go, SQL or Lua.
//
// Leases and instants stand for those that a store gives: see Holds and Now.
package verdicts

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Now is the store's clock in every case. Everything else lies minutes from it, so that a slow machine changes no
// case.
var Now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// Ago is an instant before Now.
func Ago(minutes int) time.Time { return Now.Add(-time.Duration(minutes) * time.Minute) }

// Holds of leases. Those of Dead have lapsed in every case, the others live.
var (
	Mine, Theirs, Next = ref("mine"), ref("theirs"), ref("next")
	Dead, Buried       = ref("dead"), ref("buried")
	Holds              = []lease.Ref{Mine, Theirs, Next, Dead, Buried}
)

// Live says whether a hold is live.
func Live(r lease.Ref) bool { return r == Mine || r == Theirs || r == Next }

func ref(key lease.Key) lease.Ref {
	return lease.Ref{Key: key, Owner: lease.Nonce{key[0], key[1]}, Token: lease.Token(len(key))}
}

// At is the tick of every case that does not name another one; Job is its job.
var At = Ago(10)

// Job is the job of every case.
const Job = "j"

// A Case is a request, the facts that it meets, and how it ends.
type Case struct {
	Name string
	// Claim, Take, Start or Close is asked for.
	Claim *tick.ClaimRequest
	Take  *tick.TakeRequest
	Start *tick.StartRequest
	Close *tick.CloseRequest
	Facts tick.Facts
	Want  tick.Status
	// Tick and Run say which rows are written.
	Tick, Run bool
}

// Verdict is what tick's rules say.
func (c *Case) Verdict() tick.Verdict {
	switch f := c.Facts; {
	case c.Claim != nil:
		return tick.JudgeClaim(*c.Claim, f)
	case c.Take != nil:
		return tick.JudgeTake(*c.Take, f)
	case c.Start != nil:
		return tick.JudgeStart(*c.Start, f)
	default:
		return tick.JudgeClose(*c.Close, f)
	}
}

// Cases is the table.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{claims(), takes(), starts(), closes()} {
		for _, c := range some {
			all = append(all, complete(c))
		}
	}
	return all
}

// complete fills in what is the same in all cases, and what follows from the holds.
func complete(c Case) Case {
	f := &c.Facts
	f.Now = Now
	if t := &f.Tick; t.State != "" {
		t.Job = Job
		if t.At.IsZero() {
			t.At = At
		}
		t.Live = Live(t.Lease)
	}
	if f.Job.Generation != 0 {
		f.Job.Name = Job
	}
	if f.Run.ID != "" {
		f.Run.Job = Job
	}
	switch {
	case c.Claim != nil:
		c.Claim.Job, c.Claim.At, f.Live = Job, or(c.Claim.At, At), Live(c.Claim.Lease)
	case c.Take != nil:
		c.Take.Job, c.Take.At, f.Live = Job, At, Live(c.Take.Lease)
	case c.Start != nil:
		c.Start.Run.Job, f.Live, f.Gate = Job, Live(c.Start.Lease), Live(c.Start.Claim)
	default:
		c.Close.Run.Job = Job
	}
	return c
}

func or(t, other time.Time) time.Time {
	if t.IsZero() {
		return other
	}
	return t
}

// The rows that cases begin with.

func claimedBy(r lease.Ref) tick.Tick { return tick.Tick{State: tick.Claimed, Lease: r} }

func startedBy(r lease.Ref) tick.Tick {
	return tick.Tick{State: tick.Started, Lease: r, RunID: "run"}
}

// ranBy is a tick whose run has ended.
func ranBy(r lease.Ref, o run.Outcome) tick.Tick {
	return tick.Tick{State: tick.Closed, Lease: r, RunID: "run", Outcome: o}
}

// closedBy is a tick that was claimed and ran nothing.
func closedBy(r lease.Ref, o run.Outcome) tick.Tick {
	return tick.Tick{State: tick.Closed, Lease: r, Outcome: o}
}

// settled is a tick that nobody claimed.
func settled(o run.Outcome) tick.Tick {
	return tick.Tick{State: tick.Closed, Outcome: o, Inferred: true}
}

// ranged is a row of three ticks that nobody claimed.
func ranged(o run.Outcome) tick.Tick {
	t := settled(o)
	t.Through, t.Count = At.Add(2*time.Minute), 3
	return t
}

func inferred(t tick.Tick) tick.Tick { t.Inferred = true; return t }

// runOf is a run of the tick, under a hold; it goes on where it has no outcome.
func runOf(r lease.Ref, o run.Outcome) run.Record {
	return run.Record{ID: "run", Tick: At, Owner: r.Owner, Token: r.Token, Outcome: o}
}
