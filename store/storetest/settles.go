package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var settlePromises = []promise{
	{"settling moves the mark from where it was seen", settleMark},
	{"settling inserts or does nothing", settleInserts},
	{"the mark stops before an unfinished tick", settleStops},
	// Holds: promise 10.
	{"a range never covers a tick that has a row", settleRange},
	{"one of many settles", oneSettles},
	// Holds: promise 10, L12.
	{"what was settled ahead of the store's clock is taken back", unsettles},
	{"nothing else is taken back", unsettlesNothing},
	// Holds: promise 10, L12.
	{"an overtaken process takes nothing back", unsettlesOvertaken},
	// Holds: promise 10, L12.
	{"what was concluded ahead of the store's clock is taken back", unsettlesForeseen},
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

func (w *world) unsettle(req tick.UnsettleRequest) tick.Status {
	w.Helper()
	a, err := w.s.Ticks.Unsettle(w.ctx, req)
	w.check("Unsettle", err)
	return a.Status
}

// ahead is a job whose ticks are settled up to an hour ahead of the store's clock, as they are when that was fast:
// three that nobody claimed, one of them before to and a range, and one that ran.
func (w *world) ahead() (now, to time.Time, claimed tick.Tick, rows []tick.Tick) {
	w.Helper()
	now = w.now(w.s).Truncate(time.Microsecond)
	to = now.Add(2 * time.Second)
	ref := w.server(w.s)
	w.setJob(w.s, "j", "{}", now.Add(30*time.Minute))
	equal(w, "Claim", w.claim(w.s, tick.ClaimRequest{Job: "j", At: now.Add(40 * time.Minute), Lease: ref, Ahead: time.Hour}).Status, tick.Won)
	w.close(w.s, tick.CloseRequest{Run: run.Record{Job: "j", Tick: now.Add(40 * time.Minute), Outcome: run.Skipped}, Claim: ref})
	for _, at := range []time.Duration{-time.Second, 31 * time.Minute, 32 * time.Minute} {
		rows = append(rows, tick.Tick{Job: "j", At: now.Add(at), State: tick.Closed, Outcome: run.Missed})
	}
	rows[2].Through, rows[2].Count = now.Add(35*time.Minute), 4
	from := w.job("j").Mark
	equal(w, "Settle", w.settle(tick.SettleRequest{Job: "j", From: from, To: now.Add(time.Hour), Rows: rows}), tick.Won)
	return now, to, w.row("j", now.Add(40*time.Minute)), rows
}

func unsettles(w *world) {
	now, to, claimed, rows := w.ahead()
	mark := now.Add(time.Hour)
	some := []tick.Tick{rows[2]}
	equal(w, "Unsettle from another mark", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark.Add(-1), To: to, Rows: some}), tick.Taken)
	equal(w, "Unsettle of an unknown job", w.unsettle(tick.UnsettleRequest{Job: "none", From: mark, To: to, Rows: some}), tick.Taken)
	equal(w, "rows after them", len(w.rows(historyOf("j"))), 4)

	equal(w, "Unsettle", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: to, Rows: some}), tick.Won)
	j := w.job("j")
	sameTime(w, "the mark", j.Mark, to)
	sameTime(w, "since", j.Since, to.Add(time.Microsecond))
	equal(w, "the one before", w.row("j", rows[0].At).State, tick.Closed)
	equal(w, "the one that was not named", w.row("j", rows[1].At).State, tick.Closed)
	equal(w, "the range", w.row("j", rows[2].At).State, "")
	equal(w, "the one that was claimed", w.row("j", claimed.At), claimed)
	equal(w, "Unsettle again", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: to}), tick.Taken)

	ref := w.server(w.s)
	a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: rows[2].At, Lease: ref, Ahead: time.Hour})
	equal(w, "Claim of what is due again", a.Status, tick.Won)
	a = w.claim(w.s, tick.ClaimRequest{Job: "j", At: claimed.At, Lease: ref, Ahead: time.Hour})
	equal(w, "Claim of what was claimed", a.Status, tick.Taken)
	a = w.claim(w.s, tick.ClaimRequest{Job: "j", At: to, Lease: ref, Ahead: time.Hour})
	equal(w, "Claim below the mark", a.Status, tick.Settled)
}

func unsettlesNothing(w *world) {
	now, to, _, rows := w.ahead()
	mark := now.Add(time.Hour)
	equal(w, "Unsettle far into the past", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: now.Add(-2 * tick.MaxBack), Rows: rows}), tick.Taken)
	equal(w, "Unsettle upwards", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: mark.Add(time.Hour), Rows: rows}), tick.Taken)
	equal(w, "rows after them", len(w.rows(historyOf("j"))), 4)
	past := now.Add(-time.Second)
	w.setJob(w.s, "k", "{}", past)
	equal(w, "Unsettle of a mark that is not ahead", w.unsettle(tick.UnsettleRequest{Job: "k", From: w.job("k").Mark, To: past.Add(-10 * time.Second)}), tick.Taken)

	p, err := w.s.Ticks.Pause(w.ctx, tick.PauseRequest{Job: "j", By: "x"})
	w.check("Pause", err)
	equal(w, "Unsettle in a pause", w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: to}), tick.Won)
	sameTime(w, "a pause that began before", w.job("j").Pause.Since, p.Pause.Since)
}

// unsettlesOvertaken is a process that reads the rows, and writes after another one has changed one of them: it
// cut a range at another tick, or took all of it back, or runs a tick after all. Were the other rows taken
// back, and the mark lowered, what the other one left of the range would lie ahead of the mark, beside ticks
// that are due again.
func unsettlesOvertaken(w *world) {
	now, to, claimed, rows := w.ahead()
	mark := now.Add(time.Hour)
	before := w.rows(historyOf("j"))
	overtaken := func(what string, some ...tick.Tick) {
		w.Helper()
		equal(w, "Unsettle of "+what, w.unsettle(tick.UnsettleRequest{Job: "j", From: mark, To: to, Rows: some}), tick.Taken)
		sameTime(w, "the mark after it", w.job("j").Mark, mark)
		equal(w, "the rows after it", len(w.rows(historyOf("j"))), len(before))
	}
	gone, cut, longer := rows[1], rows[2], rows[2]
	gone.At = gone.At.Add(time.Second)
	cut.Through, longer.Through = now.Add(33*time.Minute), time.Time{}
	overtaken("a row that is gone", rows[1], gone, rows[2])
	overtaken("a range that is longer now", rows[1], cut)
	overtaken("a range that was a tick", longer, rows[1])
	overtaken("what somebody claimed and decided", rows[1], claimed, rows[2])
	overtaken("what lies before", rows[0], rows[1], rows[2])

	parts := []tick.Tick{{At: rows[2].At, Through: now.Add(33 * time.Minute), Count: 2},
		{At: now.Add(34 * time.Minute), Through: rows[2].Through, Count: 2}}
	a, err := w.s.Ticks.Split(w.ctx, tick.SplitRequest{Row: rows[2], Parts: parts})
	w.check("Split", err)
	equal(w, "Split", a.Status, tick.Won)
	before = w.rows(historyOf("j"))
	overtaken("a range that was split since", rows[1], rows[2])
	ref := w.server(w.s)
	took := w.take(w.s, tick.TakeRequest{Job: "j", At: rows[1].At, Lease: ref, Fill: true})
	equal(w, "Take", took.Status, tick.Won)
	overtaken("what is run after all", rows[1], parts[0], parts[1])

	as := tick.UnsettleRequest{Job: "j", From: mark, To: to, Rows: parts}
	equal(w, "Unsettle as they stand", w.unsettle(as), tick.Won)
	sameTime(w, "the mark", w.job("j").Mark, to)
	equal(w, "the part of the range", w.row("j", parts[1].At).State, "")
	equal(w, "what is run", w.row("j", rows[1].At).State, tick.Claimed)
}

// unsettlesForeseen is of ticks that were closed one by one on a fast clock, as they are above a tick that is not
// finished: also where the mark does not lie ahead.
func unsettlesForeseen(w *world) {
	ref := w.server(w.s)
	now := w.now(w.s).Truncate(time.Microsecond)
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	mark := w.setJob(w.s, "j", "{}", at(-30)).Mark
	// The clock of a store under test cannot be set: these are the rows that a fast one leaves.
	ended := func(n int, o run.Outcome, reason string, again time.Time) {
		w.Helper()
		equal(w, "Claim", w.claim(w.s, tick.ClaimRequest{Job: "j", At: at(n), Lease: ref, Ahead: time.Hour}).Status, tick.Won)
		r := run.Record{Job: "j", Tick: at(n), Outcome: o, Reason: reason, Ended: again}
		equal(w, "Close", w.close(w.s, tick.CloseRequest{Run: r, Claim: ref}).Status, tick.Won)
	}
	fast := at(60)
	ended(10, run.Missed, "no server claimed it in time", fast)
	ended(11, run.Paused, "paused by x", fast)
	ended(12, run.Skipped, run.ReasonWindow, fast)
	ended(13, run.Unavailable, "store unavailable", fast)
	ended(-1, run.Missed, "its time has come since", fast)
	ended(14, run.Skipped, run.ReasonOverlap, fast)
	ended(15, run.Missed, "by a right clock", at(-1))
	ended(-29, run.Missed, "below what is asked for", fast)
	done := run.Record{ID: run.NewID(), Job: "j", Tick: at(16)}
	equal(w, "Claim", w.claim(w.s, tick.ClaimRequest{Job: "j", At: at(16), Lease: ref, Ahead: time.Hour}).Status, tick.Won)
	equal(w, "Start", w.start(w.s, tick.StartRequest{Run: done, Claim: ref, Lease: ref}).Status, tick.Won)
	done.Owner, done.Token, done.Outcome, done.Ended = ref.Owner, ref.Token, run.Unavailable, fast
	equal(w, "Close", w.close(w.s, tick.CloseRequest{Run: done, Claim: ref}).Status, tick.Won)
	equal(w, "Claim", w.claim(w.s, tick.ClaimRequest{Job: "j", At: at(17), Lease: ref, Ahead: time.Hour}).Status, tick.Won)
	again := w.rerunUnrun(at(18), ref, fast)

	of := func(all ...int) (rows []tick.Tick) {
		for _, n := range all {
			rows = append(rows, w.row("j", at(n)))
		}
		return rows
	}
	unsettle := func(from, to time.Time, rows []tick.Tick) tick.Status {
		w.Helper()
		return w.unsettle(tick.UnsettleRequest{Job: "j", From: from, To: to, Rows: rows})
	}
	keeps := func(what string, n int) {
		w.Helper()
		rows := of(10, n)
		equal(w, "Unsettle of "+what, unsettle(mark, mark, rows), tick.Taken)
		equal(w, "what was beside "+what, w.row("j", at(10)), rows[0])
		equal(w, what, w.row("j", at(n)), rows[1])
	}
	keeps("a skip that somebody decided", 14)
	keeps("an outcome of a right clock", 15)
	keeps("a tick that had a run", 16)
	keeps("a claim", 17)
	equal(w, "Foreseen of one that was run again", again.Foreseen(now), false)
	keeps("a tick that was to be run again", 18)
	equal(w, "Unsettle with a mark that is not ahead", unsettle(mark, mark.Add(-time.Minute), of(10)), tick.Taken)
	p, err := w.s.Ticks.Pause(w.ctx, tick.PauseRequest{Job: "j", By: "x"})
	w.check("Pause", err)

	rows := of(-1, 10, 11, 12, 13)
	for _, t := range rows {
		equal(w, "Foreseen", t.Foreseen(now), true)
	}
	equal(w, "Unsettle from another mark", unsettle(at(-29), at(-29), rows), tick.Taken)
	equal(w, "Unsettle", unsettle(mark, mark, rows), tick.Won)
	for _, t := range rows {
		equal(w, "what was concluded", w.row("j", t.At).State, "")
	}
	equal(w, "the rows that stay", len(w.rows(historyOf("j"))), 6)
	sameTime(w, "the mark", w.job("j").Mark, mark)
	sameTime(w, "a pause", w.job("j").Pause.Since, p.Pause.Since)
	equal(w, "Unsettle of what is gone", unsettle(mark, mark, rows[:1]), tick.Taken)
	due := tick.ClaimRequest{Job: "j", At: at(10), Lease: ref, Ahead: time.Hour, Outcome: run.Missed}
	equal(w, "Claim of what is due again", w.claim(w.s, due).Status, tick.Won)
}

// rerunUnrun is a tick that ran, was to be run again, and ended without that.
func (w *world) rerunUnrun(at time.Time, ref lease.Ref, ended time.Time) tick.Tick {
	w.Helper()
	equal(w, "Claim", w.claim(w.s, tick.ClaimRequest{Job: "j", At: at, Lease: ref, Ahead: time.Hour}).Status, tick.Won)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: at}
	equal(w, "Start", w.start(w.s, tick.StartRequest{Run: r, Claim: ref, Lease: ref}).Status, tick.Won)
	r.Owner, r.Token, r.Outcome = ref.Owner, ref.Token, run.Crashed
	w.close(w.s, tick.CloseRequest{Run: r, Claim: ref})
	equal(w, "Take", w.take(w.s, tick.TakeRequest{Job: "j", At: at, From: ref, Lease: ref, Rerun: true}).Status, tick.Won)
	w.close(w.s, tick.CloseRequest{Run: run.Record{Job: "j", Tick: at, Outcome: run.Missed, Ended: ended}, Claim: ref})
	return w.row("j", at)
}
