package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/keys"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A caller may give texts of any length: a command line of a glob, a reason, an error. What is kept of them is
// bounded, so that no record is larger than a reader takes, and none hides the others.

var longLeases = []promise{
	// Holds: promise 24.
	{"long texts of a holder and of a break are cut", longHolder},
}

var longTicks = []promise{
	// Holds: promise 24.
	{"long texts of ticks, runs and events are cut", longRecords},
	// Holds: promise 24.
	{"long texts of a pause are cut", longPause},
}

// endless is a text of two million bytes, each of which takes more as JSON.
var endless = strings.Repeat(`"é<`, 500_000)

// endlessHolder has it in each field that describes it.
func endlessHolder() lease.Holder {
	return lease.Holder{ID: lease.NewNonce(), Host: endless, HostID: endless, BootID: endless, PIDNS: endless, PID: 1, Start: 1, RunID: endless,
		Command: endless, Cgroup: endless, Replaceable: true}
}

// cutTexts checks that v, as JSON, has short texts only, and the cut one at least once.
func (w *world) cutTexts(what string, v any) {
	w.Helper()
	b, err := json.Marshal(v)
	w.check(what, err)
	var tree any
	w.check(what, json.Unmarshal(b, &tree))
	found := 0
	var walk func(any)
	walk = func(node any) {
		switch v := node.(type) {
		case string:
			if len(v) > keys.MostText {
				w.Errorf("%s: a text of %d bytes: %.40s…", what, len(v), v)
			}
			if v == keys.Text(endless) {
				found++
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(tree)
	if found == 0 {
		w.Errorf("%s: nothing has the cut text: %.400s", what, b)
	}
}

func longHolder(w *world) {
	other := w.process()
	req := request("long")
	req.Holder = endlessHolder()
	r := w.grant(w.s, req)
	w.hold(w.s, "short")
	w.cutTexts("the record that is granted", r.Holder)
	equal(w, "what it is cut to", r.Holder.Command, keys.Text(endless))
	equal(w, "Renew", w.renew(w.s, r.Ref()).Status, lease.OK)
	w.cutTexts("the answer to Read", w.read(other, "long").Record.Holder)
	equal(w, "leases that are listed", fmt.Sprint(w.list(other, "", false)), "[long short]")
	equal(w, "Acquire by another", w.acquire(other, request("long")).Status, lease.Held)
	equal(w, "Ask", w.ask(other, r.Ref(), endlessHolder()), lease.OK)
	if by := w.renew(w.s, r.Ref()).Record.Wanted; by == nil {
		w.Error("nobody asks for the lease")
	} else {
		w.cutTexts("the newcomer", *by)
	}
	a := w.breakIt(other, r.Ref(), lease.Broken{By: endless, Why: endless})
	equal(w, "Break", a.Status, lease.OK)
	w.cutTexts("the break", w.renew(w.s, r.Ref()).Record.Broken)
	equal(w, "leases that are listed then", fmt.Sprint(w.list(other, "", true)), "[long short]")
	equal(w, "Release", w.release(w.s, r.Ref()), lease.OK)
	w.hold(other, "long")
}

func longRecords(w *world) {
	ref := w.server(w.s)
	claimed := w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref, Claimant: endlessHolder()})
	equal(w, "Claim", claimed.Status, tick.Won)
	equal(w, "Claim of what ran nothing", w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(1), Lease: ref, Claimant: holder(),
		Outcome: run.Skipped, Reason: endless}).Status, tick.Won)
	for i, at := range []time.Time{w.at(0), {}} {
		r := run.Record{ID: run.NewID(), Job: "j", Tick: at, Host: endless, PID: 1, Command: endless,
			Cause: &run.Cause{By: endless, Why: endless}}
		claim := ref
		if at.IsZero() {
			claim = lease.Ref{}
		}
		equal(w, fmt.Sprint("Start ", i), w.start(w.s, tick.StartRequest{Run: r, Claim: claim, Lease: ref}).Status, tick.Won)
		w.cutTexts("a run that goes on", w.run(r.ID))
		r.Owner, r.Token = ref.Owner, ref.Token
		r.Outcome, r.Reason = run.Failed, endless
		for n := range 3 {
			r.Attempts = append(r.Attempts, run.Attempt{N: n + 1, Outcome: run.Failed, Error: endless, Response: &run.Response{
				Headers: map[string]string{"content-type": endless}}})
		}
		equal(w, fmt.Sprint("Close ", i), w.close(w.s, tick.CloseRequest{Run: r, Claim: claim}).Status, tick.Won)
		got := w.run(r.ID)
		w.cutTexts("a run that has ended", got)
		equal(w, "its attempts", len(got.Attempts), 3)
	}
	elsewhere := run.Record{ID: run.NewID(), Job: "k", Outcome: run.Failed, Command: endless, Reason: endless, Started: w.at(0), Ended: w.at(1)}
	w.check("AppendRuns", w.s.History.AppendRuns(w.ctx, []run.Record{elsewhere}))
	w.check("AppendTicks", w.s.History.AppendTicks(w.ctx, []tick.Tick{{Job: "k", At: w.at(0), State: tick.Closed, Outcome: run.Failed,
		Reason: endless, Claimant: endlessHolder()}}))
	w.check("Append", w.s.History.Append(w.ctx, []history.Event{{Kind: "lease-broken", Job: "k", Host: endless, Reason: endless}}))
	job := w.setJob(w.s, "s", "{}", w.at(0))
	missed := w.missed(1, 2, 2)
	missed.Job, missed.Reason = "s", endless
	equal(w, "Settle", w.settle(tick.SettleRequest{Job: "s", From: job.Mark, To: w.at(2), Rows: []tick.Tick{missed}}), tick.Won)
	runs, rows, events := w.runs(history.Query{}), w.rows(history.Query{}), w.events(history.Query{})
	equal(w, "runs", len(runs), 3)
	equal(w, "ticks", len(rows), 4)
	w.cutTexts("runs", runs)
	w.cutTexts("ticks", rows)
	w.cutTexts("events", events)
}

func longPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	w.cutTexts("the pause", w.pause(w.s, tick.PauseRequest{Job: "j", By: endless, Why: endless}).Pause)
	w.cutTexts("the job", w.job("j"))
}
