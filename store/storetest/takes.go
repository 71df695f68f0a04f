package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

var takePromises = []promise{
	{"orphans are unfinished and lapsed, by job and instant", orphansOnly},
	{"a lapsed claim is taken over, a live one is not", takeClaimed},
	{"one of many takes over", oneTaker},
	{"a re-run is of what started and lapsed", rerunStarted},
	// Holds: promise 15.
	{"a re-run is of what crashed, was lost or canceled", rerunClosed},
	{"a take is in time and stands on a live lease", takeInTime},
}

func orphansOnly(w *world) {
	live, dead := w.server(w.s), w.server(w.s)
	w.won(w.s, "a", w.at(0), live)
	w.won(w.s, "a", w.at(5), dead)
	w.started(w.s, "b", w.at(2), dead)
	w.won(w.s, "a", w.at(1), dead)
	done := w.started(w.s, "a", w.at(3), dead)
	w.close(w.s, tick.CloseRequest{Run: end(done, run.Succeeded), Claim: dead})
	equal(w, "orphans while the lease lives", len(w.orphans(w.s, "", 10)), 0)
	w.lapse(w.s, dead)

	other := w.process()
	check := func(what string, got []tick.Tick, want ...int) {
		w.Helper()
		if len(got) != len(want) {
			w.Fatalf("orphans %s: %d, want %d: %+v", what, len(got), len(want), got)
		}
		for i, n := range want {
			sameTime(w, "orphan "+what, got[i].At, w.at(n))
			equal(w, "its lease "+what, got[i].Lease, dead)
			equal(w, "it lives "+what, got[i].Live, false)
		}
	}
	check("of all", w.orphans(other, "", 10), 1, 5, 2)
	check("of one job", w.orphans(other, "a", 10), 1, 5)
	check("at most two", w.orphans(other, "", 3), 1, 5) // and one that lives
	check("of no job", w.orphans(other, "A", 10))
	equal(w, "the state of a started one", w.orphans(other, "b", 1)[0].State, tick.Started)
}

func takeClaimed(w *world) {
	from := w.server(w.s)
	other := w.process()
	to := w.server(other)
	w.won(w.s, "j", w.at(0), from)
	req := tick.TakeRequest{Job: "j", At: w.at(0), From: from, Lease: to, Claimant: lease.Holder{Host: "second"}}
	equal(w, "Take of a live claim", w.take(other, req).Status, tick.Taken)
	w.lapse(w.s, from)
	rerun, wrong, none := req, req, req
	rerun.Rerun, wrong.From.Token, none.At = true, from.Token-1, w.at(1)
	equal(w, "Take as a re-run of what ran nothing", w.take(other, rerun).Status, tick.Taken)
	equal(w, "Take from another claim", w.take(other, wrong).Status, tick.Taken)
	equal(w, "Take of what nobody claimed", w.take(other, none).Status, tick.Taken)
	equal(w, "the claim after them", w.row("j", w.at(0)).Lease, from)

	equal(w, "Take", w.take(other, req).Status, tick.Won)
	equal(w, "a repeated Take", w.take(other, req).Status, tick.Won)
	row := w.row("j", w.at(0))
	equal(w, "state", row.State, tick.Claimed)
	equal(w, "lease", row.Lease, to)
	equal(w, "claimant", row.Claimant.Host, "second")
	equal(w, "re-runs", row.Reruns, 0)
	late := w.server(w.s)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}
	equal(w, "Start by the first claimant", w.start(w.s, tick.StartRequest{Run: r, Claim: from, Lease: late}).Status, tick.Taken)
	equal(w, "Start by the second", w.start(other, tick.StartRequest{Run: r, Claim: to, Lease: to}).Status, tick.Won)
}

func oneTaker(w *world) {
	from := w.server(w.s)
	w.won(w.s, "j", w.at(0), from)
	w.lapse(w.s, from)
	processes := []*store.Store{w.s, w.process()}
	var reqs [8]tick.TakeRequest
	for i := range reqs {
		reqs[i] = tick.TakeRequest{Job: "j", At: w.at(0), From: from, Lease: w.server(processes[i%2])}
	}
	var won [8]bool
	together(8, func(i int) {
		a, err := processes[i%2].Ticks.Take(w.ctx, reqs[i])
		if err != nil {
			w.Errorf("Take: %v", err)
		}
		won[i] = a.Status == tick.Won
	})
	wins := 0
	for i := range won {
		if won[i] {
			wins++
			equal(w, "the lease of the row", w.row("j", w.at(0)).Lease, reqs[i].Lease)
		}
	}
	equal(w, "winners", wins, 1)
}

func rerunStarted(w *world) {
	from, to := w.server(w.s), w.server(w.process())
	old := w.started(w.s, "j", w.at(0), from)
	req := tick.TakeRequest{Job: "j", At: w.at(0), From: from, Lease: to, Rerun: true}
	equal(w, "Take of a live run", w.take(w.s, req).Status, tick.Taken)
	w.lapse(w.s, from)
	plain := req
	plain.Rerun = false
	equal(w, "Take of a started tick without re-run", w.take(w.s, plain).Status, tick.Taken)
	equal(w, "its run after it", w.run(old.ID).Outcome, "")

	equal(w, "Take", w.take(w.s, req).Status, tick.Won)
	equal(w, "a repeated Take", w.take(w.s, req).Status, tick.Won)
	row := w.row("j", w.at(0))
	equal(w, "state", row.State, tick.Claimed)
	equal(w, "re-runs", row.Reruns, 1)
	equal(w, "lease", row.Lease, to)
	equal(w, "it lives", row.Live, true)
	crashed := w.run(old.ID)
	equal(w, "the old run's outcome", crashed.Outcome, run.Crashed)
	equal(w, "it is inferred", crashed.Inferred, true)
	equal(w, "it has the words of nobody", crashed.Reason, "")
	equal(w, "its end is zero", crashed.Ended.IsZero(), false)
}

func rerunClosed(w *world) {
	for i, c := range []struct {
		outcome run.Outcome
		want    tick.Status
	}{
		{run.Lost, tick.Won}, {run.Crashed, tick.Won}, {run.Canceled, tick.Won},
		{run.Succeeded, tick.Taken}, {run.Failed, tick.Taken}, {run.TimedOut, tick.Taken}, {run.Replaced, tick.Taken},
	} {
		from, to := w.server(w.s), w.server(w.s)
		old := w.started(w.s, "j", w.at(i), from)
		w.close(w.s, tick.CloseRequest{Run: end(old, c.outcome), Claim: from, Release: from})
		req := tick.TakeRequest{Job: "j", At: w.at(i), From: from, Lease: to}
		equal(w, "Take without re-run of "+string(c.outcome), w.take(w.s, req).Status, tick.Taken)
		req.Rerun = true
		equal(w, "Take of "+string(c.outcome), w.take(w.s, req).Status, c.want)
		equal(w, "the old run keeps its outcome", w.run(old.ID).Outcome, c.outcome)
		row := w.row("j", w.at(i))
		if c.want == tick.Won {
			equal(w, "state of what was "+string(c.outcome), row.State, tick.Claimed)
			equal(w, "outcome of what was "+string(c.outcome), row.Outcome, "")
			equal(w, "ended of it is zero", row.Ended.IsZero(), true)
			equal(w, "re-runs", row.Reruns, 1)
		} else {
			equal(w, "outcome", row.Outcome, c.outcome)
		}
	}
	ref, to := w.server(w.s), w.server(w.s)
	skip := tick.ClaimRequest{Job: "j", At: w.at(20), Lease: ref, Outcome: run.Skipped}
	w.claim(w.s, skip)
	w.release(w.s, ref)
	req := tick.TakeRequest{Job: "j", At: w.at(20), From: ref, Lease: to, Rerun: true}
	equal(w, "Take of a skipped tick", w.take(w.s, req).Status, tick.Taken)
}

func takeInTime(w *world) {
	from := w.server(w.s)
	w.won(w.s, "j", w.at(0), from)
	w.lapse(w.s, from)
	req := tick.TakeRequest{Job: "j", At: w.at(0), From: from, Lease: w.server(w.s), NotAfter: w.now(w.s).Add(-time.Millisecond)}
	equal(w, "Take past its not_after", w.take(w.s, req).Status, tick.Late)
	lapsed := tick.TakeRequest{Job: "j", At: w.at(0), From: from, Lease: w.lapsed(w.s)}
	equal(w, "Take under a lapsed lease", w.take(w.s, lapsed).Status, tick.Lapsed)
	equal(w, "the claim after both", w.row("j", w.at(0)).Lease, from)
}
