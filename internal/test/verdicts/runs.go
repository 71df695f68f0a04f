package verdicts

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func takes() []Case {
	plain := func(from lease.Ref) *tick.TakeRequest { return &tick.TakeRequest{From: from, Lease: Mine} }
	rerun := func(from lease.Ref) *tick.TakeRequest { return &tick.TakeRequest{From: from, Lease: Mine, Rerun: true} }
	fill := func(from lease.Ref) *tick.TakeRequest { return &tick.TakeRequest{From: from, Lease: Mine, Fill: true} }
	late := func(r *tick.TakeRequest) *tick.TakeRequest { r.NotAfter = Ago(1); return r }
	under := func(ref lease.Ref, r *tick.TakeRequest) *tick.TakeRequest { r.Lease = ref; return r }
	begun := tick.Facts{Tick: startedBy(Dead), Run: runOf(Dead, "")}
	all := []Case{
		{Name: "of a lapsed claim", Take: plain(Dead),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Won, Tick: true},
		{Name: "of a live claim", Take: plain(Theirs), Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of a lapsed claim, from another", Take: plain(Buried),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Taken},
		{Name: "of a lapsed claim, as a re-run", Take: rerun(Dead),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Taken},
		{Name: "of a lapsed claim, to fill", Take: fill(Dead),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Taken},
		{Name: "of nothing", Take: plain(Dead), Want: tick.Taken},
		{Name: "repeated", Take: plain(Dead), Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Won},
		{Name: "repeated late", Take: late(plain(Dead)), Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Won},
		{Name: "repeated after its own lease lapsed", Take: under(Buried, plain(Dead)),
			Facts: tick.Facts{Tick: claimedBy(Buried)}, Want: tick.Won},
		{Name: "late", Take: late(plain(Dead)), Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Late},
		{Name: "late, of a live claim", Take: late(plain(Theirs)),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Late},
		{Name: "under a lapsed lease", Take: under(Buried, plain(Dead)),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Lapsed},
		{Name: "under a lapsed lease, of a live claim", Take: under(Buried, plain(Theirs)),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of a dead run, as a re-run", Take: rerun(Dead), Facts: begun, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a dead run, under a lapsed lease", Take: under(Buried, rerun(Dead)),
			Facts: begun, Want: tick.Lapsed},
		{Name: "of a dead run, without re-run", Take: plain(Dead), Facts: begun, Want: tick.Taken},
		{Name: "of a live run", Take: rerun(Theirs),
			Facts: tick.Facts{Tick: startedBy(Theirs), Run: runOf(Theirs, "")}, Want: tick.Taken},
	}
	for o, again := range map[run.Outcome]bool{run.Lost: true, run.Crashed: true, run.Canceled: true,
		run.Succeeded: false, run.Failed: false, run.TimedOut: false, run.Replaced: false} {
		f := tick.Facts{Tick: ranBy(Theirs, o), Run: runOf(Theirs, o)}
		all = append(all,
			Case{Name: "of what was " + string(o) + ", as a re-run", Take: rerun(Theirs),
				Facts: f, Want: wonIf(again), Tick: again},
			Case{Name: "of what was " + string(o), Take: plain(Theirs), Facts: f, Want: tick.Taken},
			Case{Name: "of what was " + string(o) + ", to fill", Take: fill(Theirs), Facts: f, Want: tick.Taken})
	}
	for o, fills := range map[run.Outcome]bool{run.Missed: true, run.Unavailable: true, run.Skipped: true, run.Paused: false} {
		all = append(all,
			Case{Name: "of what is settled as " + string(o) + ", to fill", Take: fill(lease.Ref{}),
				Facts: tick.Facts{Tick: settled(o)}, Want: wonIf(fills), Tick: fills},
			Case{Name: "of a range that is " + string(o) + ", to fill", Take: fill(lease.Ref{}),
				Facts: tick.Facts{Tick: ranged(o)}, Want: tick.Taken},
			Case{Name: "of what was closed as " + string(o) + ", to fill", Take: fill(Theirs),
				Facts: tick.Facts{Tick: closedBy(Theirs, o)}, Want: wonIf(fills), Tick: fills},
			Case{Name: "of what was closed as " + string(o) + ", as a re-run", Take: rerun(Theirs),
				Facts: tick.Facts{Tick: closedBy(Theirs, o)}, Want: tick.Taken})
	}
	return all
}

func wonIf(yes bool) tick.Status {
	if yes {
		return tick.Won
	}
	return tick.Taken
}

func starts() []Case {
	ticked := func(claim, under lease.Ref, notAfter time.Time) *tick.StartRequest {
		return &tick.StartRequest{Run: run.Record{ID: "run", Tick: At}, Claim: claim, Lease: under, NotAfter: notAfter}
	}
	free := func(gate, under lease.Ref, notAfter time.Time) *tick.StartRequest {
		return &tick.StartRequest{Run: run.Record{ID: "run"}, Claim: gate, Lease: under, NotAfter: notAfter}
	}
	alone := func(r lease.Ref, o run.Outcome) run.Record { x := runOf(r, o); x.Tick = time.Time{}; return x }
	past, ever, none := Ago(1), time.Time{}, lease.Ref{}
	second := ticked(Mine, Mine, ever)
	second.Run.ID = "another"
	mine, running := tick.Facts{Tick: claimedBy(Mine)}, tick.Facts{Tick: startedBy(Mine), Run: runOf(Mine, "")}
	return []Case{
		{Name: "of one's own claim", Start: ticked(Mine, Mine, ever),
			Facts: mine, Want: tick.Won, Tick: true, Run: true},
		{Name: "of one's own claim, in time", Start: ticked(Mine, Mine, Now.Add(time.Hour)),
			Facts: mine, Want: tick.Won, Tick: true, Run: true},
		{Name: "under a lease of its own", Start: ticked(Mine, Next, ever),
			Facts: mine, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a lapsed claim under a live lease", Start: ticked(Dead, Next, ever),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Won, Tick: true, Run: true},
		{Name: "late", Start: ticked(Mine, Mine, past), Facts: mine, Want: tick.Late},
		{Name: "under a lapsed lease", Start: ticked(Mine, Dead, ever), Facts: mine, Want: tick.Lapsed},
		{Name: "of another's claim", Start: ticked(Mine, Mine, ever),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of another's claim, under a lapsed lease", Start: ticked(Dead, Dead, ever),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of nobody's", Start: ticked(Mine, Mine, ever), Want: tick.Taken},
		{Name: "of what has ended", Start: ticked(Mine, Mine, ever),
			Facts: tick.Facts{Tick: closedBy(Mine, run.Skipped)}, Want: tick.Taken},
		{Name: "repeated", Start: ticked(Mine, Mine, ever), Facts: running, Want: tick.Won},
		{Name: "repeated late", Start: ticked(Mine, Mine, past), Facts: running, Want: tick.Won},
		{Name: "repeated after its lease lapsed", Start: ticked(Dead, Dead, ever),
			Facts: tick.Facts{Tick: startedBy(Dead), Run: runOf(Dead, "")}, Want: tick.Won},
		{Name: "repeated under another lease", Start: ticked(Mine, Next, ever), Facts: running, Want: tick.Taken},
		{Name: "repeated after it ended", Start: ticked(Mine, Mine, ever),
			Facts: tick.Facts{Tick: ranBy(Mine, run.Failed), Run: runOf(Mine, run.Failed)}, Want: tick.Taken},
		{Name: "of a second run", Start: second, Facts: tick.Facts{Tick: startedBy(Mine)}, Want: tick.Taken},
		{Name: "without a tick", Start: free(none, Mine, ever), Want: tick.Won, Run: true},
		{Name: "without a tick, late", Start: free(none, Mine, past), Want: tick.Late},
		{Name: "without a tick, under a lapsed lease", Start: free(none, Dead, ever), Want: tick.Lapsed},
		{Name: "without a tick, repeated late", Start: free(none, Mine, past),
			Facts: tick.Facts{Run: alone(Mine, "")}, Want: tick.Won},
		{Name: "without a tick, repeated late, beside another run", Start: free(none, Mine, past),
			Facts: tick.Facts{Run: alone(Mine, "")}, Want: tick.Won},
		{Name: "without a tick, repeated after it ended", Start: free(none, Mine, ever),
			Facts: tick.Facts{Run: alone(Mine, run.Failed)}, Want: tick.Taken},
		{Name: "behind a live gate", Start: free(Next, Mine, ever), Want: tick.Won, Run: true},
		{Name: "behind a lapsed gate", Start: free(Dead, Mine, ever), Want: tick.Lapsed},
		{Name: "behind a lapsed gate, late", Start: free(Dead, Mine, past), Want: tick.Late},
		{Name: "behind a lapsed gate, repeated", Start: free(Dead, Mine, ever),
			Facts: tick.Facts{Run: alone(Mine, "")}, Want: tick.Won},
	}
}

func closes() []Case {
	claim := func(ref lease.Ref, o run.Outcome) *tick.CloseRequest {
		return &tick.CloseRequest{Claim: ref, Run: run.Record{Tick: At, Outcome: o, Reason: run.ReasonOverlap}}
	}
	report := func(ref lease.Ref, o run.Outcome) *tick.CloseRequest {
		return &tick.CloseRequest{Claim: ref, Run: runOf(ref, o)}
	}
	guess := func(ref lease.Ref, o run.Outcome) *tick.CloseRequest {
		r := report(ref, o)
		r.Run.Inferred = true
		return r
	}
	older := report(Mine, run.Succeeded)
	older.Run.Token--
	running := tick.Facts{Tick: startedBy(Mine), Run: runOf(Mine, "")}
	ran := tick.Facts{Tick: ranBy(Mine, run.Failed), Run: runOf(Mine, run.Failed)}
	guessed := tick.Facts{Tick: inferred(ranBy(Mine, run.Crashed)), Run: runOf(Mine, run.Crashed)}
	guessed.Run.Inferred = true
	again := tick.Facts{Tick: claimedBy(Next), Run: guessed.Run} // the tick was taken over, and is claimed anew
	again.Run.Owner, again.Run.Token, again.Tick.Reruns = Dead.Owner, Dead.Token, 1
	return []Case{
		{Name: "of a claim", Close: claim(Mine, run.Skipped),
			Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Won, Tick: true},
		{Name: "of a lapsed claim", Close: claim(Dead, run.Skipped),
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Won, Tick: true},
		{Name: "of another's claim", Close: claim(Mine, run.Skipped),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of nobody's", Close: claim(Mine, run.Skipped), Want: tick.Taken},
		{Name: "of a claim, repeated", Close: claim(Mine, run.Skipped),
			Facts: tick.Facts{Tick: closedBy(Mine, run.Skipped)}, Want: tick.Won},
		{Name: "of a claim, otherwise", Close: claim(Mine, run.Skipped),
			Facts: tick.Facts{Tick: closedBy(Mine, run.Missed)}, Want: tick.Taken},
		{Name: "of a claim that has started", Close: claim(Mine, run.Skipped), Facts: running, Want: tick.Taken},
		{Name: "of a claim whose run has ended alike", Close: claim(Mine, run.Failed), Facts: ran, Want: tick.Taken},
		{Name: "of a run", Close: report(Mine, run.Succeeded), Facts: running, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a run whose lease has lapsed", Close: report(Dead, run.Succeeded),
			Facts: tick.Facts{Tick: startedBy(Dead), Run: runOf(Dead, "")}, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a run, by another", Close: report(Theirs, run.Succeeded), Facts: running, Want: tick.Taken},
		{Name: "of a run, under an older token", Close: older, Facts: running, Want: tick.Taken},
		{Name: "of a run that nobody knows", Close: report(Mine, run.Succeeded), Want: tick.Taken},
		{Name: "of a run, repeated", Close: report(Mine, run.Failed), Facts: ran, Want: tick.Won},
		{Name: "of a run, otherwise", Close: report(Mine, run.Succeeded), Facts: ran, Want: tick.Taken},
		{Name: "of a run, guessed", Close: guess(Mine, run.Crashed),
			Facts: running, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a run, guessed after its word", Close: guess(Mine, run.Failed), Facts: ran, Want: tick.Taken},
		{Name: "of a run, guessed alike", Close: guess(Mine, run.Crashed), Facts: guessed, Want: tick.Won},
		{Name: "of a run, guessed otherwise", Close: guess(Mine, run.Lost), Facts: guessed, Want: tick.Taken},
		{Name: "of a run, its word after a guess", Close: report(Mine, run.Succeeded),
			Facts: guessed, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a run, its word after a guess of the same", Close: report(Mine, run.Crashed),
			Facts: guessed, Want: tick.Won, Tick: true, Run: true},
		{Name: "of a run whose tick is claimed anew", Close: report(Dead, run.Succeeded),
			Facts: again, Want: tick.Won, Run: true},
		{Name: "of a run whose tick is claimed anew, guessed alike", Close: guess(Dead, run.Crashed),
			Facts: again, Want: tick.Won},
	}
}
