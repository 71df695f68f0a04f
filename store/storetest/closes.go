package storetest

import (
	"reflect"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var closePromises = []promise{
	{"outcome and release are one", closeReleases},
	// Holds: promise 4.
	{"a close is fenced", closeFenced},
	{"a claim that ran nothing is closed by its claimant", closeClaimOnly},
	{"the run's own report amends what was inferred", amendInferred},
	{"after a re-run a late report concerns its run alone", reportAfterRerun},
	{"closes of a batch are independent", closeBatch},
}

func closeReleases(w *world) {
	server, own := w.server(w.s), w.hold(w.s, "j").Ref()
	w.won(w.s, "j", w.at(0), server)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0), Host: "h"}
	w.start(w.s, tick.StartRequest{Run: r, Claim: server, Lease: own})
	begun := w.now(w.s)
	r.Owner, r.Token, r.Outcome, r.Reason = own.Owner, own.Token, run.Failed, `it said "no" 🐘 \`
	r.Attempts = []run.Attempt{
		{N: 1, Outcome: run.TimedOut, Started: begun, Ended: begun.Add(time.Millisecond), Status: 143, Error: `killed \ "hard"`},
		{N: 2, Outcome: run.Failed, Task: 1<<53 - 1, Started: begun.Add(time.Second), Ended: begun.Add(2 * time.Second), Status: 503, Printed: 1 << 40,
			Response: &run.Response{Headers: map[string]string{"Retry-After": `soon \ "é"`}, FirstByte: 0.25, Body: 1 << 41}},
	}
	req := tick.CloseRequest{Run: r, Claim: own, Release: own}
	equal(w, "Close", w.close(w.s, req).Status, tick.Won)
	free := w.read(w.s, "j").Record
	equal(w, "the released lease is live", free.Live(w.now(w.s)), false)
	equal(w, "its expiry is zero", free.Expires.IsZero(), true)

	row, got := w.row("j", w.at(0)), w.run(r.ID)
	equal(w, "state", row.State, tick.Closed)
	equal(w, "the tick's outcome", row.Outcome, run.Failed)
	equal(w, "the tick's reason", row.Reason, r.Reason)
	equal(w, "the run's outcome", got.Outcome, run.Failed)
	equal(w, "the run's reason", got.Reason, r.Reason)
	equal(w, "the run's host", got.Host, "h")
	between(w, "the tick's end", begun, row.Ended, w.now(w.s))
	between(w, "the run's end", begun, got.Ended, w.now(w.s))
	if !reflect.DeepEqual(got.Attempts, r.Attempts) {
		w.Errorf("attempts: %+v, want %+v", got.Attempts, r.Attempts)
	}
	w.hold(w.process(), "j") // a repeated close must not release the next holder's lease
	equal(w, "a repeated Close", w.close(w.s, req).Status, tick.Won)
	equal(w, "the next holder's lease is live", w.read(w.s, "j").Record.Live(w.now(w.s)), true)
	equal(w, "the row after it", w.row("j", w.at(0)), row)
}

func closeFenced(w *world) {
	mine, theirs := w.server(w.s), w.server(w.process())
	r := w.started(w.s, "j", w.at(0), mine)
	for what, wrong := range map[string]run.Record{
		"another owner":   {ID: r.ID, Owner: theirs.Owner, Token: r.Token},
		"another token":   {ID: r.ID, Owner: r.Owner, Token: r.Token - 1},
		"an unknown run":  {ID: run.NewID(), Owner: r.Owner, Token: r.Token},
		"another's claim": {ID: run.NewID(), Owner: theirs.Owner, Token: theirs.Token},
	} {
		wrong.Job, wrong.Tick, wrong.Outcome = r.Job, r.Tick, run.Succeeded
		equal(w, "Close by "+what, w.close(w.s, tick.CloseRequest{Run: wrong, Claim: mine}).Status, tick.Taken)
		equal(w, "state after "+what, w.row("j", w.at(0)).State, tick.Started)
		equal(w, "the run after "+what, w.run(r.ID).Outcome, "")
	}
	// Refused or not, the release that comes with it is tried.
	own := w.hold(w.s, "own").Ref()
	stranger := end(r, run.Succeeded)
	stranger.Owner = theirs.Owner
	w.close(w.s, tick.CloseRequest{Run: stranger, Claim: mine, Release: own})
	equal(w, "a lease released by a refused Close is live", w.read(w.s, "own").Record.Live(w.now(w.s)), false)

	equal(w, "Close", w.close(w.s, tick.CloseRequest{Run: end(r, run.Succeeded), Claim: mine}).Status, tick.Won)
	stranger.Outcome = run.Failed
	equal(w, "a second Close by another owner", w.close(w.s, tick.CloseRequest{Run: stranger, Claim: mine}).Status, tick.Taken)
	equal(w, "the outcome stands", w.row("j", w.at(0)).Outcome, run.Succeeded)
	equal(w, "the run's stands", w.run(r.ID).Outcome, run.Succeeded)
}

func closeClaimOnly(w *world) {
	mine, theirs := w.server(w.s), w.server(w.process())
	w.won(w.s, "j", w.at(0), mine)
	closing := func(ref lease.Ref, at time.Time) tick.CloseRequest {
		return tick.CloseRequest{Claim: ref,
			Run: run.Record{Job: "j", Tick: at, Outcome: run.Skipped, Reason: run.ReasonOverlap}}
	}
	equal(w, "Close by another", w.close(w.s, closing(theirs, w.at(0))).Status, tick.Taken)
	equal(w, "Close of another tick", w.close(w.s, closing(mine, w.at(1))).Status, tick.Taken)
	equal(w, "state after both", w.row("j", w.at(0)).State, tick.Claimed)
	equal(w, "Close", w.close(w.s, closing(mine, w.at(0))).Status, tick.Won)
	equal(w, "a repeated Close", w.close(w.s, closing(mine, w.at(0))).Status, tick.Won)
	row := w.row("j", w.at(0))
	equal(w, "outcome", row.Outcome, run.Skipped)
	equal(w, "reason", row.Reason, run.ReasonOverlap)
	equal(w, "ended is zero", row.Ended.IsZero(), false)
	for _, r := range w.runs(historyOf("j")) {
		w.Errorf("it made a run: %+v", r)
	}
	r := w.started(w.s, "j", w.at(2), mine)
	equal(w, "Close of a started tick without its run", w.close(w.s, closing(mine, w.at(2))).Status, tick.Taken)
	equal(w, "the run after it", w.run(r.ID).Outcome, "")
}

func amendInferred(w *world) {
	own := w.hold(w.s, "j").Ref()
	r := w.started(w.s, "j", w.at(0), own)
	w.lapse(w.s, own)
	inferred := end(r, run.Crashed)
	inferred.Inferred = true
	other := w.process()
	inferred.Reason = "says one"
	a := w.close(other, tick.CloseRequest{Run: inferred, Claim: own})
	equal(w, "an inferred Close", a.Status, tick.Won)
	equal(w, "the reason that it is answered", a.Tick.Reason, "says one")
	inferred.Reason = "says the next one"
	a = w.close(other, tick.CloseRequest{Run: inferred, Claim: own})
	equal(w, "a second one", a.Status, tick.Won)
	equal(w, "the reason that this one is answered", a.Tick.Reason, "says one")
	equal(w, "the run of which it is", a.Tick.RunID, r.ID)
	equal(w, "the tick's outcome", w.row("j", w.at(0)).Outcome, run.Crashed)
	equal(w, "the tick's is inferred", w.row("j", w.at(0)).Inferred, true)
	equal(w, "the run's is inferred", w.run(r.ID).Inferred, true)

	equal(w, "its own late report", w.close(w.s, tick.CloseRequest{Run: end(r, run.Succeeded), Claim: own}).Status, tick.Won)
	row, got := w.row("j", w.at(0)), w.run(r.ID)
	equal(w, "the tick's outcome then", row.Outcome, run.Succeeded)
	equal(w, "the tick's is inferred then", row.Inferred, false)
	equal(w, "the run's outcome then", got.Outcome, run.Succeeded)
	equal(w, "the run's is inferred then", got.Inferred, false)

	w.close(other, tick.CloseRequest{Run: inferred, Claim: own})
	equal(w, "a report outlives inference", w.row("j", w.at(0)).Outcome, run.Succeeded)
	equal(w, "and so does the run's", w.run(r.ID).Outcome, run.Succeeded)
}

func reportAfterRerun(w *world) {
	first := w.hold(w.s, "j").Ref()
	old := w.started(w.s, "j", w.at(0), first)
	w.lapse(w.s, first)
	other := w.process()
	second := w.hold(other, "j").Ref()
	a := w.take(other, tick.TakeRequest{Job: "j", At: w.at(0), From: first, Lease: second, Rerun: true})
	equal(w, "Take", a.Status, tick.Won)

	late := func(when string, o run.Outcome) {
		w.close(w.s, tick.CloseRequest{Run: end(old, o), Claim: first, Release: first})
		equal(w, "the old run's outcome "+when, w.run(old.ID).Outcome, o)
		equal(w, "the new holder's lease is live "+when, w.read(w.s, "j").Record.Live(w.now(w.s)), true)
	}
	late("while the tick is claimed anew", run.Succeeded)
	equal(w, "the tick's state", w.row("j", w.at(0)).State, tick.Claimed)
	again := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}
	equal(w, "Start of the re-run", w.start(other, tick.StartRequest{Run: again, Claim: second, Lease: second}).Status, tick.Won)
	late("while the re-run runs", run.Succeeded)
	row := w.row("j", w.at(0))
	equal(w, "the tick's state", row.State, tick.Started)
	equal(w, "the tick's run", row.RunID, again.ID)
	again.Owner, again.Token = second.Owner, second.Token
	equal(w, "Close of the re-run", w.close(other, tick.CloseRequest{Run: end(again, run.Failed), Claim: second}).Status, tick.Won)
	late("when the re-run has ended", run.Succeeded)
	equal(w, "the tick's outcome is its last run's", w.row("j", w.at(0)).Outcome, run.Failed)
}

func closeBatch(w *world) {
	ref := w.server(w.s)
	one, two := w.started(w.s, "a", w.at(0), ref), w.started(w.s, "b", w.at(0), ref)
	w.won(w.s, "c", w.at(0), ref)
	stranger := end(two, run.Succeeded)
	stranger.Token++
	answers, err := w.s.Ticks.Close(w.ctx, []tick.CloseRequest{
		{Run: end(two, run.Failed), Claim: ref}, {Run: stranger, Claim: ref}, {Run: end(one, run.Succeeded), Claim: ref},
		{Run: run.Record{Job: "c", Tick: w.at(0), Outcome: run.Skipped}, Claim: ref, Release: ref}})
	w.check("Close", err)
	if len(answers) != 4 {
		w.Fatalf("Close of 4: %d answers", len(answers))
	}
	for i, want := range []tick.Status{tick.Won, tick.Taken, tick.Won, tick.Won} {
		equal(w, "Close, item by item", answers[i].Status, want)
	}
	for job, want := range map[string]run.Outcome{"a": run.Succeeded, "b": run.Failed, "c": run.Skipped} {
		equal(w, "outcome of "+job, w.row(job, w.at(0)).Outcome, want)
	}
	equal(w, "the released lease is live", w.read(w.s, ref.Key).Record.Live(w.now(w.s)), false)
}
