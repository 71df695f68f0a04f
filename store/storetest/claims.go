package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

var claimPromises = []promise{
	// Holds: promise 8.
	{"the first claim wins for ever", firstClaim},
	// Holds: promise 8.
	{"one of many claims wins", oneClaimOfMany},
	{"a repeated winner is told that it won", repeatedClaim},
	{"a claim stands on a live lease", claimNeedsLease},
	{"a claim is refused early and late", claimInTime},
	// Holds: promise 8.
	{"a claim at or below the mark is settled", claimAboveMark},
	{"a claim needs the registered generation", claimGeneration},
	{"a tick can be claimed and closed in one", claimAndClose},
	{"ticks are distinct by job and instant", distinctTicks},
	{"a claimed row comes back as it was written", claimRoundTrip},
}

func firstClaim(w *world) {
	mine, other := w.server(w.s), w.process()
	theirs, at := w.server(other), w.at(0)
	req := tick.ClaimRequest{Job: "j", At: at, Lease: mine, Claimant: lease.Holder{Host: "first"}}
	equal(w, "the first claim", w.claim(w.s, req).Status, tick.Won)
	req.Lease, req.Claimant = theirs, lease.Holder{Host: "second"}
	refused := func(when string) {
		a := w.claim(other, req)
		equal(w, "a second claim "+when, a.Status, tick.Taken)
		equal(w, "the claimant that it is told "+when, a.Tick.Claimant.Host, "first")
		equal(w, "the lease that it is told "+when, a.Tick.Lease, mine)
	}
	refused("while the first lives")
	w.lapse(w.s, mine)
	refused("when its lease has lapsed")
	w.release(w.s, mine)
	refused("when its lease is released")
	w.close(w.s, tick.CloseRequest{Run: run.Record{Job: "j", Tick: at, Outcome: run.Skipped}, Claim: mine})
	refused("when it has its outcome")
}

func oneClaimOfMany(w *world) {
	processes := []*store.Store{w.s, w.process(), w.process(), w.process()}
	var reqs [16]tick.ClaimRequest
	for i := range reqs {
		reqs[i] = tick.ClaimRequest{Job: "j", At: w.at(0), Lease: w.server(processes[i%4])}
	}
	var answers [16]tick.Status
	together(16, func(i int) {
		a, err := processes[i%4].Ticks.Claim(w.ctx, reqs[i:i+1])
		if err != nil || len(a) != 1 {
			w.Errorf("Claim: %v, %v", a, err)
			return
		}
		answers[i] = a[0].Status
	})
	winner, wins := w.row("j", w.at(0)).Lease, 0
	for i, s := range answers {
		if s == tick.Won {
			wins++
			equal(w, "the winner in the row", winner, reqs[i].Lease)
		} else {
			equal(w, "the answer of a loser", s, tick.Taken)
		}
	}
	equal(w, "winners", wins, 1)
}

func repeatedClaim(w *world) {
	req := tick.ClaimRequest{Job: "j", At: w.at(0), Lease: w.server(w.s), Claimant: lease.Holder{Host: "h"}}
	first := w.claim(w.s, req)
	again := w.claim(w.process(), req)
	equal(w, "the repeated claim", again.Status, tick.Won)
	equal(w, "its row", again.Tick, first.Tick)
}

func claimNeedsLease(w *world) {
	released := w.server(w.s)
	w.release(w.s, released)
	taken := w.hold(w.s, "run").Ref()
	w.lapse(w.s, taken)
	w.hold(w.process(), "run")
	newer := w.server(w.s)
	newer.Token++
	for what, ref := range map[string]lease.Ref{
		"lapsed": w.lapsed(w.s), "released": released, "taken": taken, "of another token": newer,
		"unknown": {Key: "none", Owner: lease.NewNonce(), Token: 1},
	} {
		req := tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref}
		equal(w, "Claim under a lease that is "+what, w.claim(w.s, req).Status, tick.Lapsed)
		req.Outcome = run.Skipped
		equal(w, "Claim and close under a lease that is "+what, w.claim(w.s, req).Status, tick.Lapsed)
	}
	w.won(w.s, "j", w.at(0), w.server(w.s)) // nothing was left behind
}

func claimInTime(w *world) {
	ref, now := w.server(w.s), w.now(w.s)
	req := tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref, NotAfter: now.Add(-time.Millisecond)}
	equal(w, "Claim past its not_after", w.claim(w.s, req).Status, tick.Late)
	ahead := tick.ClaimRequest{Job: "j", At: now.Add(time.Hour).Truncate(time.Second), Lease: ref, Ahead: time.Minute}
	equal(w, "Claim too far ahead", w.claim(w.s, ahead).Status, tick.Early)
	equal(w, "rows after both", w.row("j", req.At).State+w.row("j", ahead.At).State, "")
	ahead.Ahead = 2 * time.Hour
	equal(w, "Claim ahead within the tolerance", w.claim(w.s, ahead).Status, tick.Won)
	req.NotAfter = now.Add(time.Hour)
	equal(w, "Claim before its not_after", w.claim(w.s, req).Status, tick.Won)
}

func claimAboveMark(w *world) {
	job := w.setJob(w.s, "j", "{}", w.at(10))
	ref := w.server(w.s)
	for what, at := range map[string]time.Time{"below": w.at(5), "at": job.Mark} {
		for _, generation := range []int64{0, job.Generation} {
			a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: at, Generation: generation, Lease: ref})
			equal(w, "Claim "+what+" the mark", a.Status, tick.Settled)
			equal(w, "its row", w.row("j", at).State, "")
		}
	}
	w.won(w.s, "j", w.at(10), ref)
	w.won(w.s, "another", w.at(5), ref) // another job has another mark, or none
}

func claimGeneration(w *world) {
	ref := w.server(w.s)
	req := tick.ClaimRequest{Job: "j", At: w.at(20), Generation: 1, Lease: ref}
	equal(w, "Claim of a job that is not registered", w.claim(w.s, req).Status, tick.Differs)
	w.setJob(w.s, "j", `{"a":1}`, w.at(0))
	w.setJob(w.s, "j", `{"a":2}`, w.at(10))
	equal(w, "Claim with the old generation", w.claim(w.s, req).Status, tick.Differs)
	equal(w, "its row", w.row("j", req.At).State, "")
	req.Generation = 2
	equal(w, "Claim with the registered one", w.claim(w.s, req).Status, tick.Won)
	w.setJob(w.s, "j", "", w.at(21))
	req.At = w.at(22)
	equal(w, "Claim of a removed job", w.claim(w.s, req).Status, tick.Differs)
}

func claimAndClose(w *world) {
	ref := w.server(w.s)
	req := tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref, Outcome: run.Skipped, Reason: run.ReasonOverlap}
	a := w.claim(w.s, req)
	equal(w, "Claim with an outcome", a.Status, tick.Won)
	equal(w, "a repeated one", w.claim(w.s, req).Status, tick.Won)
	row := w.row("j", w.at(0))
	equal(w, "state", row.State, tick.Closed)
	equal(w, "outcome", row.Outcome, run.Skipped)
	equal(w, "reason", row.Reason, run.ReasonOverlap)
	equal(w, "inferred", row.Inferred, false)
	between(w, "ended", row.Claimed, row.Ended, w.now(w.s))

	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}
	equal(w, "Start of it", w.start(w.s, tick.StartRequest{Run: r, Claim: ref, Lease: ref}).Status, tick.Taken)
	req = tick.ClaimRequest{Job: "j", At: w.at(0), Lease: w.server(w.s)}
	equal(w, "a later Claim", w.claim(w.s, req).Status, tick.Taken)
	w.release(w.s, ref)
	equal(w, "orphans", len(w.orphans(w.s, "", 10)), 0)
}

// distinctTicks claims, in one batch, what is alike but not the same.
func distinctTicks(w *world) {
	ref := w.server(w.s)
	var reqs []tick.ClaimRequest
	for _, k := range unlike {
		reqs = append(reqs, tick.ClaimRequest{Job: string(k), At: w.at(0), Lease: ref})
	}
	for i := range 5 {
		reqs = append(reqs, tick.ClaimRequest{Job: "k", At: w.at(0).Add(time.Duration(i+1) * time.Microsecond), Lease: ref})
	}
	lapsed := reqs[0]
	lapsed.At, lapsed.Lease = w.at(1), w.lapsed(w.s)
	reqs = append(reqs, lapsed)
	answers, err := w.s.Ticks.Claim(w.ctx, reqs)
	w.check("Claim", err)
	if len(answers) != len(reqs) {
		w.Fatalf("Claim of %d: %d answers", len(reqs), len(answers))
	}
	for i, a := range answers[:len(reqs)-1] {
		if a.Status != tick.Won || a.Tick.Job != reqs[i].Job || !a.Tick.At.Equal(reqs[i].At) {
			w.Errorf("Claim(%q, %v): %v of (%q, %v)", reqs[i].Job, reqs[i].At, a.Status, a.Tick.Job, a.Tick.At)
		}
		if row := w.row(reqs[i].Job, reqs[i].At); row.Job != reqs[i].Job {
			w.Errorf("Ticks of %q: %q", reqs[i].Job, row.Job)
		}
	}
	equal(w, "the last, under a lapsed lease", answers[len(reqs)-1].Status, tick.Lapsed)
}

func claimRoundTrip(w *world) {
	ref, before := w.server(w.s), w.now(w.s)
	claimant := lease.Holder{ID: ref.Owner, Host: "höst", PID: 9, RunID: "r", Start: 1<<53 + 1, Command: `a "b" \ 🐘`}
	w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(3), Lease: ref, Claimant: claimant})
	row := w.row("j", w.at(3))
	between(w, "claimed", before, row.Claimed, w.now(w.s))
	want := tick.Tick{Job: "j", At: w.at(3), State: tick.Claimed, Lease: ref, Claimant: claimant,
		Claimed: row.Claimed, Live: true}
	equal(w, "the row", row, want)
	w.lapse(w.s, ref)
	equal(w, "it lives after its lease", w.row("j", w.at(3)).Live, false)
}
