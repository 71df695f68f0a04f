package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var orphanPromises = []promise{
	// Holds: T15.
	{"orphans are found in steps", orphansInSteps},
	// Holds: T15.
	{"another app's orphans are not in the way", orphansBeside},
	// Holds: T15.
	{"what is owed is what was claimed and came to nothing", owedOnly},
	{"what is owed is found in steps, the latest first", owedInSteps},
	// Holds: T15.
	{"what others owe is not in the way", owedBeside},
	{"a free lease tells when it was last renewed", freeTells},
}

func spots(ticks []tick.Tick) (all []tick.Spot) {
	for _, t := range ticks {
		all = append(all, t.Spot())
	}
	return all
}

// orphansInSteps: each step looks at no more ticks than it was asked to, live ones among them, and says where
// to go on.
func orphansInSteps(w *world) {
	live, dead := w.server(w.s), w.server(w.s)
	var want []tick.Spot
	for _, name := range []string{"shop/a", "shop/ab", "shop/b", "shopping/c", "z"} {
		for n := range 4 {
			ref := dead
			if n%2 == 1 {
				ref = live
			}
			w.won(w.s, name, w.at(n), ref)
			if n%2 == 0 {
				want = append(want, tick.Spot{Job: name, At: w.at(n)})
			}
		}
	}
	w.lapse(w.s, dead)
	for _, c := range []struct {
		look tick.Look
		of   func(tick.Spot) bool
	}{
		{tick.Look{}, func(tick.Spot) bool { return true }},
		{tick.Look{Prefix: "shop/"}, func(s tick.Spot) bool { return strings.HasPrefix(s.Job, "shop/") }},
		{tick.Look{Job: "shop/a"}, func(s tick.Spot) bool { return s.Job == "shop/a" }},
		{tick.Look{Job: "shop/"}, func(tick.Spot) bool { return false }},
	} {
		for _, limit := range []int{1, 3, 4, 100} {
			l, got := c.look, []tick.Spot(nil)
			l.Limit = limit
			for steps := 0; ; steps++ {
				found := w.look(w.s, l)
				if len(found.Ticks) > limit || steps > 100 {
					w.Fatalf("%+v: %d orphans in a step, %d steps", l, len(found.Ticks), steps)
				}
				got = append(got, spots(found.Ticks)...)
				if l.After = found.Next; !found.More() {
					break
				}
			}
			wanted := slices.DeleteFunc(slices.Clone(want), func(s tick.Spot) bool { return !c.of(s) })
			if !slices.Equal(got, wanted) {
				w.Errorf("orphans of %+v, %d at a time:\n%v, want\n%v", c.look, limit, got, wanted)
			}
		}
	}
}

// orphansBeside: applications that are gone, and left thousands of ticks that are older, keep nobody from finding
// their own in the first step, whichever name comes first (orphans of a dead application starved all others).
func orphansBeside(w *world) {
	testsize.Counts(w)
	theirs := testsize.Of(1_200, 10_000)
	dead := w.server(w.s)
	for from := 0; from < theirs; from += 300 {
		var reqs []tick.ClaimRequest
		for n := range min(300, theirs-from) {
			reqs = append(reqs, tick.ClaimRequest{Job: fmt.Sprintf("%s/j%d", []string{"gone", "old"}[n%2], from+n), At: w.at(-60), Lease: dead})
		}
		answers, err := w.s.Ticks.Claim(w.ctx, reqs)
		w.check("Claim", err)
		for _, a := range answers {
			if a.Status != tick.Won {
				w.Fatalf("Claim: %v", a.Status)
			}
		}
	}
	w.won(w.s, "new/j", w.at(0), dead)
	w.won(w.s, "new/k", w.at(1), dead)
	w.lapse(w.s, dead)
	found := w.look(w.s, tick.Look{Prefix: "new/", Limit: 100})
	if got, want := spots(found.Ticks), []tick.Spot{{Job: "new/j", At: w.at(0)}, {Job: "new/k", At: w.at(1)}}; !slices.Equal(got, want) || found.More() {
		w.Errorf("orphans beside %d others: %v, and more: %t; want %v", theirs, got, found.More(), want)
	}
	equal(w, "orphans of one job", len(w.orphans(w.s, "new/k", 10)), 1)
	all := 0
	for l := (tick.Look{}); ; {
		found := w.look(w.s, l)
		if len(found.Ticks) > tick.MaxRows {
			w.Fatalf("%d in one step", len(found.Ticks))
		}
		all += len(found.Ticks)
		if l.After = found.Next; !found.More() {
			break
		}
	}
	equal(w, "orphans of all", all, theirs+2)
}

func owedOnly(w *world) {
	ref := w.server(w.s)
	ended := map[run.Outcome]int{}
	for i, o := range []run.Outcome{run.Succeeded, run.Failed, run.TimedOut, run.Replaced, run.Lost, run.Crashed, run.Canceled} {
		r := w.started(w.s, "app/j", w.at(i), ref)
		w.close(w.s, tick.CloseRequest{Run: end(r, o), Claim: ref})
		ended[o] = i
	}
	reasons := map[run.Outcome]string{run.Skipped: run.ReasonOverlap}
	for i, o := range []run.Outcome{run.Missed, run.Unavailable, run.Paused, run.Skipped} {
		w.claim(w.s, tick.ClaimRequest{Job: "app/j", At: w.at(10 + i), Lease: ref, Outcome: o, Reason: reasons[o]})
		ended[o] = 10 + i
	}
	w.claim(w.s, tick.ClaimRequest{Job: "app/j", At: w.at(20), Lease: ref, Outcome: run.Skipped, Reason: run.ReasonWindow})
	w.won(w.s, "app/j", w.at(21), ref) // unfinished
	w.won(w.s, "app/j", w.at(22), ref)
	w.close(w.s, tick.CloseRequest{Claim: ref, Run: run.Record{Job: "app/j", Tick: w.at(22), Outcome: run.Missed}})
	mark := w.setJob(w.s, "app/s", "d", w.at(0)).Mark
	_, err := w.s.Ticks.Settle(w.ctx, tick.SettleRequest{Job: "app/s", From: mark, To: w.at(30),
		Rows: []tick.Tick{{At: w.at(23), State: tick.Closed, Outcome: run.Missed}}})
	w.check("Settle", err)

	check := func(what string, l tick.OwedLook, want ...int) {
		w.Helper()
		found := w.owed(w.s, l)
		var wanted []tick.Spot
		for _, n := range want {
			wanted = append(wanted, tick.Spot{Job: "app/j", At: w.at(n)})
		}
		if got := spots(found.Ticks); !slices.Equal(got, wanted) || found.More() {
			w.Errorf("owed %s: %v, want %v", what, got, wanted)
		}
		for _, t := range found.Ticks {
			equal(w, "the row of "+what, t.Outcome, w.row(t.Job, t.At).Outcome)
		}
	}
	look := tick.OwedLook{App: "app", From: w.at(0)}
	check("in all", look, 22, 20, 12, 11, 10, 6, 5, 4)
	check("from an instant on", tick.OwedLook{App: "app", From: w.at(6)}, 22, 20, 12, 11, 10, 6)
	check("after an instant", tick.OwedLook{App: "app", From: w.at(6), After: tick.Spot{Job: "app/j", At: w.at(11)}}, 10, 6)
	check("by nobody", tick.OwedLook{App: "ap", From: w.at(0)})

	// What is run again is owed no more, until it ends.
	to := w.server(w.s)
	take := func(n int, rerun bool) {
		w.Helper()
		req := tick.TakeRequest{Job: "app/j", At: w.at(n), From: ref, Lease: to, Rerun: rerun, Fill: !rerun}
		equal(w, "Take", w.take(w.s, req).Status, tick.Won)
	}
	take(4, true)
	take(11, false)
	check("but for those that are taken", look, 22, 20, 12, 10, 6, 5)
	for _, n := range []int{4, 11} {
		r := run.Record{ID: run.NewID(), Job: "app/j", Tick: w.at(n), Owner: to.Owner, Token: to.Token}
		equal(w, "Start", w.start(w.s, tick.StartRequest{Run: r, Claim: to, Lease: to}).Status, tick.Won)
		o := run.Succeeded
		if n == 4 {
			o = run.Lost
		}
		w.close(w.s, tick.CloseRequest{Run: end(r, o), Claim: to})
	}
	check("once they have ended", look, 22, 20, 12, 10, 6, 5, 4)

	// A run's own word replaces what was inferred.
	guessed := w.started(w.s, "app/j", w.at(7), ref)
	inferred := end(guessed, run.Crashed)
	inferred.Inferred = true
	w.close(w.s, tick.CloseRequest{Run: inferred, Claim: ref})
	check("with a crash that was inferred", look, 22, 20, 12, 10, 7, 6, 5, 4)
	w.close(w.s, tick.CloseRequest{Run: end(guessed, run.Succeeded), Claim: ref})
	check("without it", look, 22, 20, 12, 10, 6, 5, 4)
	w.prune(w.at(7))
	check("after pruning", look, 22, 20, 12, 10)
}

func owedInSteps(w *world) {
	ref := w.server(w.s)
	var want []tick.Spot
	for n := range 6 {
		for _, name := range []string{"app/a", "app/b"} {
			w.claim(w.s, tick.ClaimRequest{Job: name, At: w.at(n), Lease: ref, Outcome: run.Unavailable})
			want = append(want, tick.Spot{Job: name, At: w.at(n)})
		}
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 5, 12, 100} {
		var got []tick.Spot
		for l := (tick.OwedLook{App: "app", From: w.at(0), Limit: limit}); ; {
			found := w.owed(w.s, l)
			if len(found.Ticks) > limit || len(got) > len(want) {
				w.Fatalf("%d in a step of %d", len(found.Ticks), limit)
			}
			got = append(got, spots(found.Ticks)...)
			if l.After = found.Next; !found.More() {
				break
			}
		}
		if !slices.Equal(got, want) {
			w.Errorf("owed, %d at a time:\n%v, want\n%v", limit, got, want)
		}
	}
}

func owedBeside(w *world) {
	testsize.Counts(w)
	ref := w.server(w.s)
	var reqs []tick.ClaimRequest
	for n := range 600 {
		app := []string{"old/j%d", "j%d", "appendix/j%d"}[n%3]
		reqs = append(reqs, tick.ClaimRequest{Job: fmt.Sprintf(app, n), At: w.at(n % 50), Lease: ref, Outcome: run.Unavailable})
	}
	_, err := w.s.Ticks.Claim(w.ctx, reqs[:300])
	w.check("Claim", err)
	w.claim(w.s, tick.ClaimRequest{Job: "app/j", At: w.at(3), Lease: ref, Outcome: run.Unavailable})
	_, err = w.s.Ticks.Claim(w.ctx, reqs[300:])
	w.check("Claim", err)
	equal(w, "the rows of all", len(w.rows(history.Query{Limit: 1000})), 601)
	found := w.owed(w.s, tick.OwedLook{App: "app", From: w.at(0).Add(-time.Hour), Limit: 2})
	if got := spots(found.Ticks); len(got) != 1 || got[0].Job != "app/j" || found.More() {
		w.Errorf("owed beside others: %v, and more: %t", got, found.More())
	}
}

// freeTells: a record that is free says when it was last renewed, by which servers know when the last of them swept.
func freeTells(w *world) {
	before := w.now(w.s)
	l := w.hold(w.s, lease.Key("app").Sweep())
	w.release(w.s, l.Ref())
	r, err := w.process().Leases.Read(w.ctx, []lease.Key{l.Key})
	w.check("Read", err)
	rec := r.Answers[0].Record
	equal(w, "it lives", rec.Live(r.Now), false)
	between(w, "renewed", before, rec.Renewed, r.Now)
}
