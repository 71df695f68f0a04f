package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

var fillPromises = []promise{
	// Holds: T12.
	{"a claim that fills goes below the mark, once", fillClaim},
	// Holds: T12.
	{"a take that fills is of what never ran", fillTake},
	// Holds: T12.
	{"one of many fills a tick", oneFills},
	// Holds: T12.
	{"a range is split only as it was read", splitRange},
	// Holds: T12.
	{"what runs below the mark does not hold it", fillBelowMark},
}

// settled is a job whose mark is at 20, with what settling left below.
func (w *world) settled(rows ...tick.Tick) tick.Job {
	w.Helper()
	job := w.setJob(w.s, "j", "{}", w.at(0))
	equal(w, "Settle", w.settle(tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(20), Rows: rows}), tick.Won)
	return w.job("j")
}

func (w *world) split(req tick.SplitRequest) tick.Status {
	w.Helper()
	a, err := w.s.Ticks.Split(w.ctx, req)
	w.check("Split", err)
	return a.Status
}

func fillClaim(w *world) {
	w.settled()
	ref, other := w.server(w.s), w.server(w.s)
	req := tick.ClaimRequest{Job: "j", At: w.at(5), Lease: ref, Generation: 1}
	equal(w, "a claim below the mark", w.claim(w.s, req).Status, tick.Settled)
	req.Fill = true
	equal(w, "one that fills", w.claim(w.s, req).Status, tick.Won)
	equal(w, "the same, repeated", w.claim(w.s, req).Status, tick.Won)
	equal(w, "its state", w.row("j", w.at(5)).State, tick.Claimed)
	req.Lease = other
	equal(w, "another's", w.claim(w.s, req).Status, tick.Taken)
	req.At, req.Generation = w.at(6), 7
	equal(w, "one of another generation", w.claim(w.s, req).Status, tick.Differs)
	req.Generation, req.Lease = 1, w.lapsed(w.s)
	equal(w, "one under a lapsed lease", w.claim(w.s, req).Status, tick.Lapsed)
	_, err := w.s.Ticks.Pause(w.ctx, tick.PauseRequest{Job: "j", By: "ann", Why: "a test"})
	w.check("Pause", err)
	req.Lease = other
	equal(w, "one in a pause", w.claim(w.s, req).Status, tick.Paused)
	equal(w, "what it left", w.row("j", w.at(6)).State, "")
}

func fillTake(w *world) {
	w.settled(w.missed(1, 0, 1), w.missed(2, 4, 3))
	ref, to := w.server(w.s), w.server(w.s)
	closed := func(n int, o run.Outcome) {
		a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(n), Lease: ref, Outcome: o, Fill: true})
		equal(w, "the claim that ended "+string(o), a.Status, tick.Won)
	}
	closed(10, run.Unavailable)
	closed(11, run.Skipped)
	closed(12, run.Paused)
	w.won(w.s, "j", w.at(30), ref)
	done := w.started(w.s, "j", w.at(31), ref)
	w.close(w.s, tick.CloseRequest{Run: end(done, run.Crashed), Claim: ref})
	for n, want := range map[int]tick.Status{1: tick.Won, 2: tick.Taken, 10: tick.Won, 11: tick.Won, 12: tick.Taken, 30: tick.Taken, 31: tick.Taken} {
		before := w.row("j", w.at(n))
		req := tick.TakeRequest{Job: "j", At: w.at(n), From: before.Lease, Lease: to, Claimant: lease.Holder{Host: "filler"}}
		what := "Take of what is " + string(before.State) + " " + string(before.Outcome)
		equal(w, what+", as ever", w.take(w.s, req).Status, tick.Taken)
		req.Fill = true
		wrong := req
		wrong.From.Token++
		equal(w, what+" from another lease", w.take(w.s, wrong).Status, tick.Taken)
		late := req
		late.NotAfter = w.now(w.s).Add(-time.Millisecond)
		equal(w, what+" past its not_after", w.take(w.s, late).Status, tick.Late)
		equal(w, what+" that fills", w.take(w.s, req).Status, want)
		equal(w, what+" that fills, repeated", w.take(w.s, req).Status, want)
		row := w.row("j", w.at(n))
		if want != tick.Won {
			equal(w, what+": the lease it keeps", row.Lease, before.Lease)
			equal(w, what+": the outcome it keeps", row.Outcome, before.Outcome)
			continue
		}
		equal(w, what+": state", row.State, tick.Claimed)
		equal(w, what+": outcome", row.Outcome, "")
		equal(w, what+": inferred", row.Inferred, false)
		equal(w, what+": ended is zero", row.Ended.IsZero(), true)
		equal(w, what+": lease", row.Lease, to)
		equal(w, what+": claimant", row.Claimant.Host, "filler")
		equal(w, what+": re-runs", row.Reruns, 0)
	}
	// Who witnessed it may be who runs it after all.
	closed(13, run.Unavailable)
	req := tick.TakeRequest{Job: "j", At: w.at(13), From: ref, Lease: ref, Fill: true}
	equal(w, "Take under the lease that the row names", w.take(w.s, req).Status, tick.Won)
	equal(w, "its state", w.row("j", w.at(13)).State, tick.Claimed)

	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(1)}
	equal(w, "Start of what was filled", w.start(w.s, tick.StartRequest{Run: r, Claim: to, Lease: to}).Status, tick.Won)
	r.Owner, r.Token = to.Owner, to.Token
	equal(w, "its Close", w.close(w.s, tick.CloseRequest{Run: end(r, run.Succeeded), Claim: to}).Status, tick.Won)
	equal(w, "its outcome", w.row("j", w.at(1)).Outcome, run.Succeeded)
}

func oneFills(w *world) {
	w.settled(w.missed(1, 0, 1))
	processes := []*store.Store{w.s, w.process()}
	var won [2][8]bool
	var refs [8]lease.Ref
	for i := range refs {
		refs[i] = w.server(processes[i%2])
	}
	together(8, func(i int) {
		s := processes[i%2].Ticks
		a, err := s.Take(w.ctx, tick.TakeRequest{Job: "j", At: w.at(1), Lease: refs[i], Fill: true})
		if err != nil {
			w.Errorf("Take: %v", err)
		}
		won[0][i] = a.Status == tick.Won
		claims, err := s.Claim(w.ctx, []tick.ClaimRequest{{Job: "j", At: w.at(2), Lease: refs[i], Fill: true}})
		if err != nil || len(claims) != 1 {
			w.Errorf("Claim: %v, %v", claims, err)
			return
		}
		won[1][i] = claims[0].Status == tick.Won
	})
	for n, of := range won {
		wins := 0
		for i := range of {
			if of[i] {
				wins++
				equal(w, "the lease of the row", w.row("j", w.at(n+1)).Lease, refs[i])
			}
		}
		equal(w, "winners", wins, 1)
	}
}

func splitRange(w *world) {
	w.settled(w.missed(1, 0, 1), w.missed(3, 8, 6))
	whole := w.row("j", w.at(3))
	part := func(from, through, count int) tick.Tick { return w.missed(from, through, count) }
	parts := []tick.Tick{part(3, 4, 2), part(5, 0, 1), part(6, 8, 3)}
	longer, more, single := whole, whole, w.row("j", w.at(1))
	longer.Through, more.Count = w.at(9), 7
	equal(w, "Split of another range", w.split(tick.SplitRequest{Row: longer, Parts: parts}), tick.Taken)
	equal(w, "Split of another count", w.split(tick.SplitRequest{Row: more, Parts: parts}), tick.Taken)
	equal(w, "Split of a single tick", w.split(tick.SplitRequest{Row: single, Parts: []tick.Tick{part(1, 0, 1)}}), tick.Taken)
	equal(w, "the range after them", w.row("j", w.at(3)), whole)

	equal(w, "Split", w.split(tick.SplitRequest{Row: whole, Parts: parts}), tick.Won)
	equal(w, "Split of what is split", w.split(tick.SplitRequest{Row: whole, Parts: parts}), tick.Taken)
	want := map[int]tick.Tick{1: single, 3: parts[0], 5: parts[1], 6: parts[2]}
	rows := w.rows(historyOf("j"))
	equal(w, "rows", len(rows), len(want))
	for n, p := range want {
		row := w.row("j", w.at(n))
		sameThrough := row.Through.Equal(p.Through)
		equal(w, "its end", sameThrough, true)
		equal(w, "its count", max(row.Count, 1), max(p.Count, 1))
		equal(w, "its state", row.State, tick.Closed)
		equal(w, "its outcome", row.Outcome, run.Missed)
		equal(w, "its reason", row.Reason, whole.Reason)
		equal(w, "it is inferred", row.Inferred, true)
		equal(w, "its end", row.Ended.IsZero(), false)
	}
	sameTime(w, "the mark", w.job("j").Mark, w.at(20))
	// A part reaches into a window of history as the range did, and the first one no longer does.
	equal(w, "what reaches into 7", len(w.rows(historyFrom("j", w.at(7), w.at(8)))), 1)
	take := tick.TakeRequest{Job: "j", At: w.at(5), Lease: w.server(w.s), Fill: true}
	equal(w, "Take of a part", w.take(w.s, take).Status, tick.Won)
	take.At = w.at(3)
	equal(w, "Take of a range", w.take(w.s, take).Status, tick.Taken)
}

func fillBelowMark(w *world) {
	job := w.settled(w.missed(1, 0, 1))
	ref := w.server(w.s)
	take := tick.TakeRequest{Job: "j", At: w.at(1), Lease: ref, Fill: true}
	equal(w, "Take", w.take(w.s, take).Status, tick.Won)
	equal(w, "it is unfinished", len(w.orphans(w.s, "j", 10)), 0)
	req := tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(25), Rows: []tick.Tick{w.missed(21, 0, 1)}}
	equal(w, "Settle", w.settle(req), tick.Won)
	sameTime(w, "the mark", w.job("j").Mark, w.at(25))
	equal(w, "what was settled", w.row("j", w.at(21)).Outcome, run.Missed)
	w.lapse(w.s, ref)
	equal(w, "orphans once its lease lapsed", len(w.orphans(w.s, "j", 10)), 1)
}
