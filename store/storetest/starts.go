package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var startPromises = []promise{
	{"a start is acknowledged with its run", startRecorded},
	// Holds: promise 4.
	{"a start is fenced", startFenced},
	{"a start moves the tick under the run's lease", startMoves},
	{"a repeated start won, and it starts once", startOnce},
	{"what is repeated too late has won nevertheless", repeatedLate},
	{"a run without a tick starts as well", startWithoutTick},
	{"nothing starts behind a gate that lapsed", startGated},
}

func startRecorded(w *world) {
	ref, before := w.server(w.s), w.now(w.s)
	w.won(w.s, "j", w.at(0), ref)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0), Host: "höst", PID: 42, Command: `a "b" \ 🐘`}
	a := w.start(w.s, tick.StartRequest{Run: r, Claim: ref, Lease: ref})
	equal(w, "Start", a.Status, tick.Won)
	equal(w, "the state that it tells", a.Tick.State, tick.Started)
	row, got := w.row("j", w.at(0)), w.run(r.ID)
	equal(w, "state", row.State, tick.Started)
	equal(w, "run id", row.RunID, r.ID)
	equal(w, "outcome", row.Outcome, "")
	between(w, "the tick's start", before, row.Started, w.now(w.s))
	between(w, "the run's start", before, got.Started, w.now(w.s))
	sameTime(w, "the run's tick", got.Tick, r.Tick)
	equal(w, "job", got.Job, r.Job)
	equal(w, "owner", got.Owner, ref.Owner)
	equal(w, "token", got.Token, ref.Token)
	equal(w, "host", got.Host, r.Host)
	equal(w, "pid", got.PID, r.PID)
	equal(w, "command", got.Command, r.Command)
	equal(w, "the run's outcome", got.Outcome, "")
	equal(w, "ended is zero", got.Ended.IsZero(), true)
}

func startFenced(w *world) {
	mine, theirs := w.server(w.s), w.server(w.process())
	w.won(w.s, "j", w.at(0), mine)
	refused := func(what string, req tick.StartRequest, want tick.Status) {
		w.Helper()
		req.Run = run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}
		equal(w, "Start "+what, w.start(w.s, req).Status, want)
		equal(w, "a run after it", w.run(req.Run.ID).ID, "")
		equal(w, "the tick's state after it", w.row("j", w.at(0)).State, tick.Claimed)
	}
	half := mine
	half.Token++
	refused("with another's claim", tick.StartRequest{Claim: theirs, Lease: theirs}, tick.Taken)
	refused("with an older claim", tick.StartRequest{Claim: half, Lease: mine}, tick.Taken)
	refused("past its not_after", tick.StartRequest{Claim: mine, Lease: mine, NotAfter: w.now(w.s).Add(-time.Millisecond)}, tick.Late)
	refused("under a lapsed lease", tick.StartRequest{Claim: mine, Lease: w.lapsed(w.s)}, tick.Lapsed)
	w.lapse(w.s, mine)
	refused("when the claim's own lease lapsed", tick.StartRequest{Claim: mine, Lease: mine}, tick.Lapsed)

	never := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(1)}
	equal(w, "Start of what nobody claimed", w.start(w.s, tick.StartRequest{Run: never, Claim: theirs, Lease: theirs}).Status, tick.Taken)
}

func startMoves(w *world) {
	server, own := w.server(w.s), w.hold(w.s, "j").Ref()
	w.won(w.s, "j", w.at(0), server)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}
	equal(w, "Start", w.start(w.s, tick.StartRequest{Run: r, Claim: server, Lease: own}).Status, tick.Won)
	equal(w, "the tick's lease", w.row("j", w.at(0)).Lease, own)
	w.lapse(w.s, server)
	equal(w, "it lives without the server's lease", w.row("j", w.at(0)).Live, true)
	equal(w, "orphans", len(w.orphans(w.s, "j", 10)), 0)
	w.lapse(w.s, own)
	equal(w, "orphans without its own", len(w.orphans(w.s, "j", 10)), 1)
}

func startOnce(w *world) {
	ref := w.server(w.s)
	w.won(w.s, "j", w.at(0), ref)
	req := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}, Claim: ref, Lease: ref}
	equal(w, "Start", w.start(w.s, req).Status, tick.Won)
	first := w.row("j", w.at(0))
	equal(w, "a repeated Start", w.start(w.process(), req).Status, tick.Won)
	equal(w, "the row after it", w.row("j", w.at(0)), first)
	id := req.Run.ID
	req.Run.ID = run.NewID()
	equal(w, "Start of a second run", w.start(w.s, req).Status, tick.Taken)
	equal(w, "the run of the tick", w.row("j", w.at(0)).RunID, id)
	equal(w, "a second run", w.run(req.Run.ID).ID, "")
}

// repeatedLate is a winner whose answer was lost, and whose repetition the store carries out past its not_after: were
// it told that it came too late, nothing would be executed for what the store says has begun.
func repeatedLate(w *world) {
	ref, past := w.server(w.s), func() time.Time { return w.now(w.s).Add(-time.Millisecond) }
	future := w.now(w.s).Add(time.Hour)
	claim := tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref, NotAfter: future}
	equal(w, "Claim", w.claim(w.s, claim).Status, tick.Won)
	claim.NotAfter = past()
	equal(w, "a Claim repeated late", w.claim(w.s, claim).Status, tick.Won)
	closed := tick.ClaimRequest{Job: "j", At: w.at(1), Lease: ref, Outcome: run.Missed, NotAfter: future}
	equal(w, "Claim with an outcome", w.claim(w.s, closed).Status, tick.Won)
	closed.NotAfter = past()
	equal(w, "it repeated late", w.claim(w.s, closed).Status, tick.Won)
	closed.NotAfter, closed.Outcome = future, run.Paused
	equal(w, "a Claim of one's own tick with another outcome", w.claim(w.s, closed).Status, tick.Taken)

	start := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "j", Tick: w.at(0)}, Claim: ref, Lease: ref, NotAfter: future}
	equal(w, "Start", w.start(w.s, start).Status, tick.Won)
	row := w.row("j", w.at(0))
	start.NotAfter = past()
	a := w.start(w.process(), start)
	equal(w, "a Start repeated late", a.Status, tick.Won)
	equal(w, "the run that it tells", a.Tick.RunID, start.Run.ID)
	equal(w, "the row after it", w.row("j", w.at(0)), row)
	claim.NotAfter = future
	equal(w, "a Claim of what was started since", w.claim(w.s, claim).Status, tick.Taken)
	other := start
	other.Run.ID = run.NewID()
	equal(w, "another run's Start, late", w.start(w.s, other).Status, tick.Late)
	w.close(w.s, tick.CloseRequest{Run: end(w.run(start.Run.ID), run.Failed), Claim: ref})
	if s := w.start(w.s, start).Status; s == tick.Won {
		w.Errorf("a Start repeated after its run ended: %v", s)
	}

	from, to := w.server(w.s), w.server(w.s)
	w.won(w.s, "j", w.at(2), from)
	w.lapse(w.s, from)
	take := tick.TakeRequest{Job: "j", At: w.at(2), From: from, Lease: to, NotAfter: future}
	equal(w, "Take", w.take(w.s, take).Status, tick.Won)
	take.NotAfter = past()
	equal(w, "a Take repeated late", w.take(w.s, take).Status, tick.Won)

	own, gate := w.hold(w.s, "k").Ref(), w.hold(w.s, "gate").Ref()
	free := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "k"}, Lease: own, Claim: gate, NotAfter: future}
	equal(w, "Start without a tick", w.start(w.s, free).Status, tick.Won)
	free.NotAfter = past()
	equal(w, "it repeated late", w.start(w.s, free).Status, tick.Won)
	w.lapse(w.s, gate)
	equal(w, "it repeated behind a gate that has lapsed since", w.start(w.s, free).Status, tick.Won)
	w.close(w.s, tick.CloseRequest{Run: end(w.run(free.Run.ID), run.Failed)})
	if s := w.start(w.s, free).Status; s == tick.Won {
		w.Errorf("a Start without a tick repeated after its run ended: %v", s)
	}
}

func startWithoutTick(w *world) {
	ref := w.hold(w.s, "k").Ref()
	req := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "j", Host: "h"}, Lease: ref}
	equal(w, "Start", w.start(w.s, req).Status, tick.Won)
	equal(w, "a repeated Start", w.start(w.s, req).Status, tick.Won)
	equal(w, "its tick is zero", w.run(req.Run.ID).Tick.IsZero(), true)
	for _, t := range w.rows(historyOf("j")) {
		w.Errorf("it made a tick: %+v", t)
	}
	late := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "j"}, Lease: ref, NotAfter: w.now(w.s).Add(-time.Millisecond)}
	equal(w, "Start past its not_after", w.start(w.s, late).Status, tick.Late)
	lapsed := tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "j"}, Lease: w.lapsed(w.s)}
	equal(w, "Start under a lapsed lease", w.start(w.s, lapsed).Status, tick.Lapsed)
	equal(w, "runs after both", w.run(late.Run.ID).ID+w.run(lapsed.Run.ID).ID, "")

	done := req.Run
	done.Owner, done.Token, done.Outcome = ref.Owner, ref.Token, run.Failed
	stranger := done
	stranger.Owner = lease.NewNonce()
	equal(w, "Close by another", w.close(w.s, tick.CloseRequest{Run: stranger}).Status, tick.Taken)
	equal(w, "Close", w.close(w.s, tick.CloseRequest{Run: done, Release: ref}).Status, tick.Won)
	equal(w, "its outcome", w.run(done.ID).Outcome, run.Failed)
	equal(w, "its lease is live", w.read(w.s, "k").Record.Live(w.now(w.s)), false)
}

// startGated: who waited for its lease may have lost the gate meanwhile, under which it saw that a start is due.
func startGated(w *world) {
	ref := w.hold(w.s, "k").Ref()
	gate := w.hold(w.s, "gate").Ref()
	gated := func(gate lease.Ref) tick.StartRequest {
		return tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "g"}, Lease: ref, Claim: gate}
	}
	passed, stranded := gated(gate), gated(gate)
	equal(w, "Start behind a gate", w.start(w.s, passed).Status, tick.Won)
	equal(w, "a repeated Start behind a gate", w.start(w.s, passed).Status, tick.Won)
	w.lapse(w.s, gate)
	equal(w, "Start behind a gate that lapsed", w.start(w.s, stranded).Status, tick.Lapsed)
	w.hold(w.s, "gate")
	equal(w, "Start behind a gate that another has", w.start(w.s, stranded).Status, tick.Lapsed)
	equal(w, "a run after both", w.run(stranded.Run.ID).ID, "")
}
