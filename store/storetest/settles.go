package storetest

import (
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var settlePromises = []promise{
	{"settling moves the mark from where it was seen", settleMark},
	{"settling inserts or does nothing", settleInserts},
	{"the mark stops before an unfinished tick", settleStops},
	{"a range never covers a tick that has a row", settleRange},
	{"one of many settles", oneSettles},
}

func (w *world) settle(req tick.SettleRequest) tick.Status {
	w.Helper()
	a, err := w.s.Ticks.Settle(w.ctx, req)
	w.check("Settle", err)
	return a.Status
}

// missed is a row as settling writes it; through is 0 for a single tick.
func (w *world) missed(from, through, count int) tick.Tick {
	t := tick.Tick{Job: "j", At: w.at(from), State: tick.Closed, Outcome: run.Missed, Reason: "nobody was there", Inferred: true}
	if count > 1 {
		t.Through, t.Count = w.at(through), count
	}
	return t
}

func settleMark(w *world) {
	job := w.setJob(w.s, "j", "{}", w.at(0))
	req := tick.SettleRequest{Job: "j", From: w.at(0), To: w.at(9), Rows: []tick.Tick{w.missed(1, 0, 1)}}
	equal(w, "Settle from another mark", w.settle(req), tick.Taken)
	equal(w, "rows after it", len(w.rows(historyOf("j"))), 0)
	req.From = job.Mark
	equal(w, "Settle", w.settle(req), tick.Won)
	sameTime(w, "mark", w.job("j").Mark, w.at(9))
	equal(w, "Settle from the old mark", w.settle(req), tick.Taken)
	req.Job = "none"
	equal(w, "Settle of an unknown job", w.settle(req), tick.Taken)

	a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(5), Lease: w.server(w.s)})
	equal(w, "Claim below the new mark", a.Status, tick.Settled)
	back := tick.SettleRequest{Job: "j", From: w.at(9), To: w.at(3)}
	w.settle(back)
	sameTime(w, "the mark never goes back", w.job("j").Mark, w.at(9))
}

func settleInserts(w *world) {
	job, ref := w.setJob(w.s, "j", "{}", w.at(0)), w.server(w.s)
	done := w.started(w.s, "j", w.at(2), ref)
	w.close(w.s, tick.CloseRequest{Run: end(done, run.Succeeded), Claim: ref})
	kept := w.row("j", w.at(2))
	equal(w, "Settle", w.settle(tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(9),
		Rows: []tick.Tick{w.missed(1, 0, 1), w.missed(2, 0, 1), w.missed(3, 8, 6)}}), tick.Won)
	equal(w, "what was there", w.row("j", w.at(2)), kept)
	row := w.row("j", w.at(1))
	equal(w, "state", row.State, tick.Closed)
	equal(w, "outcome", row.Outcome, run.Missed)
	equal(w, "reason", row.Reason, "nobody was there")
	equal(w, "inferred", row.Inferred, true)
	equal(w, "it lives", row.Live, false)
	row = w.row("j", w.at(3))
	sameTime(w, "the last of a range", row.Through, w.at(8))
	equal(w, "its count", row.Count, 6)
	equal(w, "rows", len(w.rows(historyOf("j"))), 3)
	equal(w, "orphans", len(w.orphans(w.s, "", 10)), 0)
}

func settleStops(w *world) {
	job, ref := w.setJob(w.s, "j", "{}", w.at(0)), w.server(w.s)
	w.won(w.s, "j", w.at(4), ref)
	w.won(w.s, "j", w.at(6), ref)
	w.won(w.s, "another", w.at(1), ref)
	equal(w, "Settle", w.settle(tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(9),
		Rows: []tick.Tick{w.missed(2, 0, 1)}}), tick.Won)
	before := w.at(4).Add(-time.Microsecond)
	sameTime(w, "the mark stops before the oldest", w.job("j").Mark, before)
	equal(w, "the row before it", w.row("j", w.at(2)).Outcome, run.Missed)

	skip := run.Record{Job: "j", Tick: w.at(4), Outcome: run.Skipped}
	w.close(w.s, tick.CloseRequest{Run: skip, Claim: ref})
	equal(w, "Settle once that is finished", w.settle(tick.SettleRequest{Job: "j", From: before, To: w.at(9)}), tick.Won)
	sameTime(w, "the mark stops before the next", w.job("j").Mark, w.at(6).Add(-time.Microsecond))
	w.won(w.s, "j", w.at(7), ref) // above the mark it can still be claimed
}

// settleRange is a claim that came between the settler's look and its writing: were the range
// written nevertheless, that tick would have two outcomes.
func settleRange(w *world) {
	job, ref := w.setJob(w.s, "j", "{}", w.at(0)), w.server(w.s)
	w.won(w.s, "j", w.at(5), ref)
	req := tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(9), Rows: []tick.Tick{w.missed(1, 0, 1), w.missed(3, 8, 6)}}
	equal(w, "Settle over an unfinished tick", w.settle(req), tick.Won)
	equal(w, "the row before the range", w.row("j", w.at(1)).Outcome, run.Missed)
	equal(w, "the range", w.row("j", w.at(3)).State, "")
	mark := w.job("j").Mark
	if mark.Before(w.at(1)) || !mark.Before(w.at(3)) {
		w.Errorf("the mark is %v, want it between the row and the range", mark)
	}
	skip := run.Record{Job: "j", Tick: w.at(5), Outcome: run.Skipped}
	w.close(w.s, tick.CloseRequest{Run: skip, Claim: ref})
	req.From = mark
	equal(w, "Settle over a finished one", w.settle(req), tick.Won)
	equal(w, "the range then", w.row("j", w.at(3)).State, "")
	equal(w, "its mark then", w.job("j").Mark.Before(w.at(3)), true)
	req.From, req.Rows = w.job("j").Mark, []tick.Tick{w.missed(3, 4, 2), w.missed(6, 8, 3)}
	equal(w, "Settle round it", w.settle(req), tick.Won)
	sameTime(w, "its mark at last", w.job("j").Mark, w.at(9))
	equal(w, "rows", len(w.rows(historyOf("j"))), 4)
}

func oneSettles(w *world) {
	job, other := w.setJob(w.s, "j", "{}", w.at(0)), w.process()
	var won [8]bool
	rows := []tick.Tick{w.missed(1, 0, 1)}
	together(8, func(i int) {
		s := w.s
		if i%2 == 1 {
			s = other
		}
		to := job.Mark.Add(time.Duration(5+i) * time.Minute)
		a, err := s.Ticks.Settle(w.ctx, tick.SettleRequest{Job: "j", From: job.Mark, To: to, Rows: rows})
		if err != nil {
			w.Errorf("Settle: %v", err)
		}
		won[i] = a.Status == tick.Won
	})
	wins := 0
	for i := range won {
		if won[i] {
			wins++
			sameTime(w, "the mark", w.job("j").Mark, job.Mark.Add(time.Duration(5+i)*time.Minute))
		}
	}
	equal(w, "winners", wins, 1)
}
