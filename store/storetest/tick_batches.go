package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var tickBatchPromises = []promise{
	// Holds: L4.
	{"starts of a batch are independent", startBatch},
	// Holds: L4.
	{"a batch may ask twice", twiceInABatch},
	// Holds: L4.
	{"each claim of a batch has a not_after of its own", claimBatch},
	// Holds: L4.
	{"a long batch of ticks is taken", longTickBatch},
}

// startBatch has an item of each kind of refusal between those that win.
func startBatch(w *world) {
	ref, past := w.server(w.s), w.now(w.s).Add(-time.Millisecond)
	own, gate, shut := w.hold(w.s, "own").Ref(), w.hold(w.s, "gate").Ref(), w.hold(w.s, "shut").Ref()
	w.lapse(w.s, shut)
	begun := w.started(w.s, "begun", w.at(0), ref)
	for _, name := range []string{"a", "b", "late", "lapsed", "stale"} {
		w.won(w.s, name, w.at(0), ref)
	}
	stale := ref
	stale.Token++
	of := func(name string) tick.StartRequest {
		return tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: name, Tick: w.at(0)}, Claim: ref, Lease: ref}
	}
	alone := func(gate lease.Ref) tick.StartRequest {
		return tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: "alone"}, Lease: own, Claim: gate}
	}
	lapsed, late, old := of("lapsed"), of("late"), of("stale")
	lapsed.Lease, late.NotAfter, old.Claim = w.lapsed(w.s), past, stale
	again := tick.StartRequest{Run: begun, Claim: ref, Lease: ref, NotAfter: past}
	inTime := of("b")
	inTime.NotAfter = w.now(w.s).Add(time.Hour)
	reqs := []tick.StartRequest{of("a"), late, alone(gate), lapsed, again, old, alone(shut), of("unclaimed"), alone(lease.Ref{}), inTime}
	want := []tick.Status{tick.Won, tick.Late, tick.Won, tick.Lapsed, tick.Won, tick.Taken, tick.Lapsed, tick.Taken, tick.Won, tick.Won}
	for i, a := range w.startAll(w.s, reqs) {
		r := reqs[i].Run
		equal(w, fmt.Sprintf("Start %d, of %s", i, r.Job), a.Status, want[i])
		if a.Status == tick.Won && !r.Tick.IsZero() {
			equal(w, "the run that it tells", a.Tick.RunID, r.ID)
			equal(w, "the state that it tells", a.Tick.State, tick.Started)
		}
		if started := w.run(r.ID).ID == r.ID; started != (want[i] == tick.Won) {
			w.Errorf("run %d, of %s: it is there: %v", i, r.Job, started)
		}
	}
	for _, name := range []string{"late", "lapsed", "stale"} {
		equal(w, "the state of "+name, w.row(name, w.at(0)).State, tick.Claimed)
	}
}

// twiceInABatch asks for the same thing twice, and for one tick twice: as if it were one after the other.
func twiceInABatch(w *world) {
	ref := w.server(w.s)
	claim := func(job string) tick.ClaimRequest { return tick.ClaimRequest{Job: job, At: w.at(0), Lease: ref} }
	answers, err := w.s.Ticks.Claim(w.ctx, []tick.ClaimRequest{claim("a"), claim("b"), claim("a")})
	w.check("Claim", err)
	for i, a := range answers {
		equal(w, fmt.Sprint("Claim, item ", i), a.Status, tick.Won)
	}
	of := func(id, job string) tick.StartRequest {
		return tick.StartRequest{Run: run.Record{ID: id, Job: job, Tick: w.at(0)}, Claim: ref, Lease: ref}
	}
	same, one, two := run.NewID(), run.NewID(), run.NewID()
	as := w.startAll(w.s, []tick.StartRequest{of(same, "a"), of(one, "b"), of(same, "a"), of(two, "b")})
	equal(w, "Start", as[0].Status, tick.Won)
	equal(w, "the same Start", as[2].Status, tick.Won)
	if first, second := as[1].Status == tick.Won, as[3].Status == tick.Won; first == second || as[1].Status+as[3].Status != tick.Won+tick.Taken {
		w.Errorf("Starts of two runs of one tick: %v and %v, want one that won and one that is taken", as[1].Status, as[3].Status)
	}
	row := w.row("b", w.at(0))
	equal(w, "the runs of it", w.run(one).ID+w.run(two).ID, row.RunID)

	done := end(w.run(same), run.Succeeded)
	closes, err := w.s.Ticks.Close(w.ctx, []tick.CloseRequest{{Run: done, Claim: ref}, {Run: end(w.run(row.RunID), run.Failed), Claim: ref}, {Run: done, Claim: ref}})
	w.check("Close", err)
	for i, a := range closes {
		equal(w, fmt.Sprint("Close, item ", i), a.Status, tick.Won)
	}
	equal(w, "outcome", w.row("a", w.at(0)).Outcome, run.Succeeded)
	equal(w, "outcome of the other", w.row("b", w.at(0)).Outcome, run.Failed)
}

func claimBatch(w *world) {
	ref, now := w.server(w.s), w.now(w.s)
	var reqs []tick.ClaimRequest
	for i, notAfter := range []time.Time{now.Add(-time.Millisecond), now.Add(time.Hour), {}, now.Add(-time.Millisecond)} {
		reqs = append(reqs, tick.ClaimRequest{Job: fmt.Sprint("j", i), At: w.at(0), Lease: ref, NotAfter: notAfter})
	}
	reqs[1].Lease = w.lapsed(w.s)
	answers, err := w.s.Ticks.Claim(w.ctx, reqs)
	w.check("Claim", err)
	for i, want := range []tick.Status{tick.Late, tick.Lapsed, tick.Won, tick.Late} {
		equal(w, fmt.Sprint("Claim, item ", i), answers[i].Status, want)
		equal(w, fmt.Sprint("there is a tick of item ", i), w.row(reqs[i].Job, w.at(0)).State != "", want == tick.Won)
	}
}

// renewing renews a lease, as a process does beside its requests, until it is told to stop.
func (w *world) renewing(ref lease.Ref) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = w.s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: ref, TTL: long}}) // what became of it, the others tell
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// longTickBatch is longer than what any store carries out in one step.
func longTickBatch(w *world) {
	testsize.Counts(w)
	const n = 700
	ref := w.server(w.s)
	defer w.renewing(ref)()
	var claims []tick.ClaimRequest
	var starts []tick.StartRequest
	for i := range n {
		name := fmt.Sprintf("j%04d", (i*7919)%n)
		claims = append(claims, tick.ClaimRequest{Job: name, At: w.at(0), Lease: ref})
		starts = append(starts, tick.StartRequest{Run: run.Record{ID: run.NewID(), Job: name, Tick: w.at(0)}, Claim: ref, Lease: ref})
	}
	won := func(what string, answers []tick.Answer, err error) {
		w.Helper()
		w.check(what, err)
		if len(answers) != n {
			w.Fatalf("%s of %d: %d answers", what, n, len(answers))
		}
		for i, a := range answers {
			if a.Status != tick.Won || a.Tick.Job != claims[i].Job {
				w.Fatalf("%s, item %d of %s: %v of %q", what, i, claims[i].Job, a.Status, a.Tick.Job)
			}
		}
	}
	answers, err := w.s.Ticks.Claim(w.ctx, claims)
	won("Claim", answers, err)
	won("Start", w.startAll(w.s, starts), nil)
	var closes []tick.CloseRequest
	for _, s := range starts {
		closes = append(closes, tick.CloseRequest{Run: end(s.Run, run.Succeeded), Claim: ref})
	}
	answers, err = w.s.Ticks.Close(w.ctx, closes)
	won("Close", answers, err)
	equal(w, "unfinished ticks", len(w.orphans(w.s, "", 10)), 0)
}
