package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var historyPromises = []promise{
	{"ticks are told latest first, within bounds", tellTicks},
	{"ticks of one job are told as they are at one instant", tellTicksAtOnce},
	{"runs are told latest first, within bounds", tellRuns},
	// Holds: L4.
	{"the latest runs of many jobs are told at once", tellLatest},
	{"the latest ticks of many jobs are told at once", tellLatestTicks},
	{"events are told newest first, within bounds", tellEvents},
	// Holds: promise 24.
	{"events come back as they were written", eventRoundTrip},
	// Holds: promise 24.
	{"events recorded elsewhere are appended once", appendEvents},
	// Holds: promise 12.
	{"ticks recorded elsewhere are appended, the latest word stands", appendTicks},
	{"output is replaced, and nil where there is none", tellOutput},
	{"runs recorded elsewhere are appended once", appendRuns},
	{"pruning leaves what is unfinished or above the mark", prune},
	// Holds: T16.
	{"pruning goes in bounded steps and says whether there is more", pruneInSteps},
	// Holds: T16.
	{"outputs beyond a job's newest are forgotten in bounded steps", pruneOutputs},
	{"history of namespaces is apart", historyApart},
}

func historyOf(job string) history.Query { return history.Query{Job: job} }

func historyFrom(job string, from, to time.Time) history.Query {
	return history.Query{Job: job, From: from, To: to}
}

func (w *world) runs(q history.Query) []run.Record {
	w.Helper()
	runs, err := w.s.History.Runs(w.ctx, q)
	w.check("Runs", err)
	return runs
}

func (w *world) events(q history.Query) []history.Event {
	w.Helper()
	events, err := w.s.History.Events(w.ctx, q)
	w.check("Events", err)
	return events
}

// minutes is where instants lie, in the minutes of at.
func minutes[T any](w *world, all []T, at func(T) time.Time) []int {
	got := []int{}
	for _, x := range all {
		got = append(got, int(at(x).Sub(w.at(0))/time.Minute))
	}
	return got
}

func tellLatest(w *world) {
	ref := w.server(w.s)
	want := map[string][]string{}
	for i := range 12 {
		name := []string{"a", "b", "b", "neighbour"}[i%4]
		r := run.Record{ID: run.NewID(), Job: name, Started: w.at(i)}
		equal(w, "Start", w.start(w.s, tick.StartRequest{Run: r, Lease: ref}).Status, tick.Won)
		want[name] = append([]string{r.ID}, want[name]...)
	}
	all, err := w.s.History.Latest(w.ctx, []string{"b", "none", "a", "b"}, 4)
	w.check("Latest", err)
	if len(all) != 4 {
		w.Fatalf("Latest of 4 jobs: %d answers", len(all))
	}
	for i, name := range []string{"b", "none", "a", "b"} {
		ids := []string{}
		for _, r := range all[i] {
			ids = append(ids, r.ID)
		}
		if most := want[name][:min(len(want[name]), 4)]; !slices.Equal(ids, most) {
			w.Errorf("the latest runs of %s: %q, want %q", name, ids, most)
		}
	}
	equal(w, "the latest is told as Runs tells it", fmt.Sprint(all[2][0]), fmt.Sprint(w.run(want["a"][0])))
	many := make([]string, 1100)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	many[1000] = "a"
	all, err = w.s.History.Latest(w.ctx, many, 1)
	w.check("Latest", err)
	if len(all) != len(many) || len(all[1000]) != 1 || len(all[999]) != 0 {
		w.Fatalf("Latest of %d jobs: %d answers", len(many), len(all))
	}
}

func tellLatestTicks(w *world) {
	if w.s.Ticks == nil {
		w.Skip("it keeps no ticks")
	}
	rows := []tick.Tick{}
	for i := range 12 {
		rows = append(rows, tick.Tick{Job: []string{"a", "b", "b", "neighbour"}[i%4], At: w.at(i), State: tick.Closed, Outcome: run.Succeeded})
	}
	rows = append(rows, tick.Tick{Job: "a", At: w.at(20), Through: w.at(30), Count: 3, State: tick.Closed, Outcome: run.Missed})
	w.check("AppendTicks", w.s.History.AppendTicks(w.ctx, rows))
	many := make([]string, 1100)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	many[3], many[600], many[1000], many[1099] = "b", "a", "a", "b"
	all, err := w.s.History.LatestTicks(w.ctx, many, 4)
	w.check("LatestTicks", err)
	if len(all) != len(many) {
		w.Fatalf("LatestTicks of %d jobs: %d answers", len(many), len(all))
	}
	at := func(t tick.Tick) time.Time { return t.At }
	for i, want := range map[int][]int{3: {10, 9, 6, 5}, 599: {}, 600: {20, 8, 4, 0}, 1000: {20, 8, 4, 0}, 1099: {10, 9, 6, 5}} {
		if got := minutes(w, all[i], at); !slices.Equal(got, want) {
			w.Errorf("the latest ticks of %s: %v, want %v", many[i], got, want)
		}
	}
	one, err := w.s.History.Ticks(w.ctx, history.Query{Job: "a", Limit: 1})
	w.check("Ticks", err)
	equal(w, "the latest is told as Ticks tells it", fmt.Sprint(all[600][0]), fmt.Sprint(one[0]))
	none, err := w.s.History.LatestTicks(w.ctx, nil, 1)
	w.check("LatestTicks of none", err)
	equal(w, "answers of none", len(none), 0)
}

// A reader misses nothing of a range that others split while it reads.
func tellTicksAtOnce(w *world) {
	if w.s.Ticks == nil {
		w.Skip("it keeps no ticks")
	}
	const n = 120
	job := w.setJob(w.s, "j", "{}", w.at(0))
	whole := w.missed(1, n, n)
	req := tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(n), Rows: []tick.Tick{whole}}
	equal(w, "Settle", w.settle(req), tick.Won)
	other := w.process()
	split := make(chan struct{})
	go func() { // it cuts off the end, tick by tick, which moves what reaches across the reader's first instant
		defer close(split)
		for last := n; last > 1; last-- {
			row := tick.Tick{Job: "j", At: w.at(1), Through: w.at(last), Count: last}
			first := tick.Tick{At: w.at(1), Count: 1}
			if last > 2 {
				first = tick.Tick{At: w.at(1), Through: w.at(last - 1), Count: last - 1}
			}
			cut := tick.SplitRequest{Row: row, Parts: []tick.Tick{first, {At: w.at(last), Count: 1}}}
			if a, err := other.Ticks.Split(w.ctx, cut); err != nil || a.Status != tick.Won {
				w.Errorf("Split at %d: %v, %v", last, a.Status, err)
				return
			}
		}
	}()
	defer func() { <-split }()
	for done := false; !done; {
		select {
		case <-split:
			done = true
		default:
		}
		for _, from := range []int{2, n / 2, n - 2} {
			told := 0
			q := history.Query{Job: "j", From: w.at(from), To: w.at(n + 1), Limit: history.Snapshot}
			for _, t := range w.rows(q) {
				first, last := t.At, t.At
				if !t.Through.IsZero() {
					last = t.Through
				}
				if first.Before(w.at(from)) {
					first = w.at(from)
				}
				told += int(last.Sub(first)/time.Minute) + 1
			}
			if told != n-from+1 {
				w.Fatalf("%d ticks from %d on are told of, not %d", told, from, n-from+1)
			}
		}
	}
}

func tellTicks(w *world) {
	if w.s.Ticks == nil {
		w.Skip("it keeps no ticks")
	}
	ref := w.server(w.s)
	job := w.setJob(w.s, "j", "{}", w.at(0))
	w.settle(tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(8), Rows: []tick.Tick{w.missed(4, 8, 5)}})
	for _, n := range []int{12, 10, 11} {
		w.won(w.s, "j", w.at(n), ref)
	}
	w.won(w.s, "another", w.at(9), ref)
	for what, c := range map[string]struct {
		q    history.Query
		want []int
	}{
		"all":                   {history.Query{}, []int{12, 11, 10, 9, 4}},
		"of a job":              {history.Query{Job: "j"}, []int{12, 11, 10, 4}},
		"of an unknown job":     {history.Query{Job: "J"}, []int{}},
		"at most two":           {history.Query{Job: "j", Limit: 2}, []int{12, 11}},
		"from, inclusive":       {history.Query{Job: "j", From: w.at(11)}, []int{12, 11}},
		"to, exclusive":         {history.Query{Job: "j", To: w.at(11)}, []int{10, 4}},
		"both":                  {history.Query{From: w.at(9), To: w.at(11)}, []int{10, 9}},
		"inside a range":        {history.Query{From: w.at(6), To: w.at(7)}, []int{4}},
		"from a range's last":   {history.Query{From: w.at(8), To: w.at(9)}, []int{4}},
		"to a range's first":    {history.Query{To: w.at(4)}, []int{}},
		"just behind its first": {history.Query{To: w.at(4).Add(time.Microsecond)}, []int{4}},
	} {
		got := minutes(w, w.rows(c.q), func(t tick.Tick) time.Time { return t.At })
		if !slices.Equal(got, c.want) {
			w.Errorf("Ticks %s: minutes %v, want %v", what, got, c.want)
		}
	}
}

// elsewhere is a finished run without a tick that started in minute n.
func (w *world) elsewhere(job string, n int) run.Record {
	return run.Record{ID: run.NewID(), Job: job, Owner: lease.NewNonce(), Token: lease.Token(w.at(n).UnixMicro()), Host: "höst", PID: 3,
		Command: `c "x" \`, Outcome: run.Failed, Reason: "r", Started: w.at(n), Ended: w.at(n).Add(time.Second),
		Attempts: []run.Attempt{{N: 1, Outcome: run.Failed, Started: w.at(n), Ended: w.at(n).Add(time.Second), Status: 2, Error: "é"}},
		Cause:    &run.Cause{By: "ann on web1", Why: "é", Backfill: "b1", Again: w.at(n)}}
}

func tellRuns(w *world) {
	var batch []run.Record
	for _, n := range []int{2, 5, 1, 4} {
		batch = append(batch, w.elsewhere("j", n))
	}
	batch = append(batch, w.elsewhere("another", 3))
	w.check("AppendRuns", w.s.History.AppendRuns(w.ctx, batch))
	for what, c := range map[string]struct {
		q    history.Query
		want []int
	}{
		"all": {history.Query{}, []int{5, 4, 3, 2, 1}}, "of a job": {history.Query{Job: "j"}, []int{5, 4, 2, 1}},
		"at most two": {history.Query{Limit: 2}, []int{5, 4}}, "within": {history.Query{From: w.at(2), To: w.at(4)}, []int{3, 2}},
		"by id": {history.Query{RunID: batch[1].ID}, []int{5}}, "by id and another job": {history.Query{RunID: batch[1].ID, Job: "another"}, []int{}},
	} {
		got := minutes(w, w.runs(c.q), func(r run.Record) time.Time { return r.Started })
		if !slices.Equal(got, c.want) {
			w.Errorf("Runs %s: minutes %v, want %v", what, got, c.want)
		}
	}
}

func appendRuns(w *world) {
	r := w.elsewhere("j", 1)
	w.check("AppendRuns", w.s.History.AppendRuns(w.ctx, []run.Record{r}))
	if got := w.run(r.ID); !reflect.DeepEqual(got, r) {
		w.Errorf("it comes back as\n%+v, want\n%+v", got, r)
	}
	changed, second := r, w.elsewhere("j", 2)
	changed.Outcome, changed.Reason = run.Succeeded, "changed"
	w.check("AppendRuns", w.process().History.AppendRuns(w.ctx, []run.Record{changed, second}))
	equal(w, "the first stands", w.run(r.ID).Outcome, run.Failed)
	equal(w, "the second is there", w.run(second.ID).ID, second.ID)
	equal(w, "runs", len(w.runs(history.Query{})), 2)
}

func tellEvents(w *world) {
	var batch []history.Event
	for _, n := range []int{2, 5, 1} {
		batch = append(batch, history.Event{At: w.at(n), Kind: "k", Job: "j", RunID: fmt.Sprint("r", n)})
	}
	w.check("Append", w.s.History.Append(w.ctx, batch))
	w.check("Append", w.s.History.Append(w.ctx, []history.Event{{At: w.at(3), Kind: "k", Job: "another"}}))
	for what, c := range map[string]struct {
		q    history.Query
		want []int
	}{
		"all": {history.Query{}, []int{5, 3, 2, 1}}, "of a job": {history.Query{Job: "j"}, []int{5, 2, 1}},
		"of a run": {history.Query{RunID: "r2"}, []int{2}}, "at most two": {history.Query{Limit: 2}, []int{5, 3}},
		"within": {history.Query{From: w.at(2), To: w.at(5)}, []int{3, 2}},
	} {
		got := minutes(w, w.events(c.q), func(e history.Event) time.Time { return e.At })
		if !slices.Equal(got, c.want) {
			w.Errorf("Events %s: minutes %v, want %v", what, got, c.want)
		}
	}
	w.check("Append", w.s.History.Append(w.ctx, make([]history.Event, 120)))
	equal(w, "events without a limit", len(w.events(history.Query{})), 100)
}

func eventRoundTrip(w *world) {
	before := w.now(w.s)
	e := history.Event{Kind: "lease-broken", Key: "k\x1fnext", Job: "j ", Tick: w.at(1), RunID: "r", Host: "höst", Reason: `"why" \ % 🐘`}
	w.check("Append", w.s.History.Append(w.ctx, []history.Event{e, {At: w.at(1), Kind: "other"}}))
	got := w.events(history.Query{})
	if len(got) != 2 || got[0].ID == "" || got[0].ID == got[1].ID {
		w.Fatalf("two events with ids of their own: %+v", got)
	}
	between(w, "its instant, where none is given", before, got[0].At, w.now(w.s))
	e.ID, e.At = got[0].ID, got[0].At
	equal(w, "the event", got[0], e)
}

func appendEvents(w *world) {
	e := history.Event{ID: "elsewhere-1", At: w.at(1), Kind: "k", Job: "j", RunID: "r", Reason: "first"}
	other, own := e, history.Event{At: w.at(1), Kind: "k", Job: "j", Reason: "own"}
	other.ID, other.Reason = "elsewhere-2", "second"
	w.check("Append", w.s.History.Append(w.ctx, []history.Event{e, own, e}))
	w.check("Append", w.process().History.Append(w.ctx, []history.Event{e, other}))
	got := w.events(history.Query{Job: "j"})
	reasons, ids := []string{}, map[string]bool{}
	for _, e := range got {
		reasons, ids[e.ID] = append(reasons, e.Reason), true
	}
	slices.Sort(reasons)
	if !slices.Equal(reasons, []string{"first", "own", "second"}) || len(ids) != 3 {
		w.Errorf("events: %q with %d ids, want each once", reasons, len(ids))
	}
	equal(w, "events of the run", len(w.events(history.Query{RunID: "r"})), 2)
}

func appendTicks(w *world) {
	if w.s.Ticks == nil {
		w.Skip("it keeps no ticks")
	}
	append := func(ticks ...tick.Tick) {
		w.Helper()
		w.check("AppendTicks", w.s.History.AppendTicks(w.ctx, ticks))
	}
	one := tick.Tick{Job: "j\x1fhöst", At: w.at(3), State: tick.Closed, Claimant: lease.Holder{Host: "höst", PID: 7}, RunID: run.NewID(),
		Outcome: run.Crashed, Reason: `"why" \ 🐘`, Inferred: true, Reruns: 1, Claimed: w.at(3), Started: w.at(4), Ended: w.at(5)}
	many := tick.Tick{Job: one.Job, At: w.at(6), Through: w.at(8), Count: 3, State: tick.Closed, Outcome: run.Missed, Ended: w.at(9)}
	append(one, many)
	amended := one
	amended.Outcome, amended.Reason, amended.Inferred, amended.Ended = run.Succeeded, "", false, w.at(7)
	append(amended, many)
	append(amended)
	got := w.rows(historyOf(one.Job))
	if len(got) != 2 || !reflect.DeepEqual(got[0], many) || !reflect.DeepEqual(got[1], amended) {
		w.Errorf("they come back as\n%+v, want\n%+v", got, []tick.Tick{many, amended})
	}
	equal(w, "within the range", len(w.rows(history.Query{Job: one.Job, From: w.at(7), To: w.at(8)})), 1)
	equal(w, "orphans", len(w.orphans(w.s, "", 10)), 0)
	equal(w, "owed", len(w.owed(w.s, tick.OwedLook{App: tick.AppOf(one.Job)}).Ticks), 0)
	equal(w, "rows that go with time", w.prune(w.now(w.s).Add(time.Hour)), 2)
}

func tellOutput(w *world) {
	id := run.NewID()
	read := func() []byte {
		b, err := w.process().History.ReadOutput(w.ctx, id)
		w.check("ReadOutput", err)
		return b
	}
	equal(w, "output of nothing is nil", read() == nil, true)
	all := make([]byte, 1<<20)
	for i := range all {
		all[i] = byte(i * 7)
	}
	for _, b := range [][]byte{all, []byte("short\x00\xff"), all[:4096], append(slices.Clip(all), "more than anybody keeps"...)} {
		w.check("Output", w.s.History.Output(w.ctx, id, b))
		if got := read(); !bytes.Equal(got, b[:min(len(b), history.MaxOutput)]) {
			w.Errorf("%d bytes come back as %d others", len(b), len(got))
		}
	}
}

func prune(w *world) {
	h := w.s.History
	done := w.elsewhere("j", 1)
	w.check("AppendRuns", h.AppendRuns(w.ctx, []run.Record{done}))
	w.check("Output", h.Output(w.ctx, done.ID, []byte("x")))
	w.check("Append", h.Append(w.ctx, []history.Event{{At: w.at(1), Kind: "old"}}))
	want := 2
	var running run.Record
	if w.s.Ticks != nil {
		ref, job := w.server(w.s), w.setJob(w.s, "j", "{}", w.at(0))
		w.settle(tick.SettleRequest{Job: "j", From: job.Mark, To: w.at(5), Rows: []tick.Tick{w.missed(1, 0, 1), w.missed(2, 4, 3)}})
		w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(7), Lease: ref, Outcome: run.Skipped})
		running = w.started(w.s, "j", w.at(6), ref)
		want += 2
		// A new definition raises the mark above a tick that still runs.
		w.setJob(w.s, "changed", "{}", w.at(0))
		w.started(w.s, "changed", w.at(6), ref)
		w.setJob(w.s, "changed", "{ }", w.at(10))
	}
	equal(w, "rows older than all", w.prune(w.at(-60)), 0)
	equal(w, "rows that went", w.prune(w.now(w.s).Add(time.Hour)), want)
	equal(w, "the ended run", w.run(done.ID).ID, "")
	equal(w, "events", len(w.events(history.Query{})), 0)
	if b, err := h.ReadOutput(w.ctx, done.ID); b != nil || err != nil {
		w.Errorf("the output of a pruned run: %q, %v", b, err)
	}
	if w.s.Ticks != nil {
		equal(w, "the running run", w.run(running.ID).ID, running.ID)
		equal(w, "the unfinished tick", w.row("j", w.at(6)).State, tick.Started)
		equal(w, "the closed tick above the mark", w.row("j", w.at(7)).State, tick.Closed)
		equal(w, "the unfinished tick below a mark", w.row("changed", w.at(6)).State, tick.Started)
		equal(w, "ticks that are left", len(w.rows(history.Query{})), 3)
	}
}

// prune deletes all that is older than an instant. A step is bounded, and all but the last find something.
func (w *world) prune(before time.Time) (total int) {
	w.Helper()
	for {
		n, more, err := w.s.History.Prune(w.ctx, before)
		w.check("Prune", err)
		if total += n; n > 3*history.Step {
			w.Fatalf("one step deleted %d rows", n)
		}
		if !more {
			return total
		}
		if n == 0 {
			w.Fatalf("a step deleted nothing and says that there is more")
		}
	}
}

func pruneInSteps(w *world) {
	const many = 2*history.Step + 7
	var runs []run.Record
	var events []history.Event
	var ticks []tick.Tick
	for i := range many {
		r := w.elsewhere("j", i)
		runs = append(runs, r)
		events = append(events, history.Event{At: w.at(i), Kind: "old", RunID: r.ID})
		ticks = append(ticks, tick.Tick{Job: "j", At: w.at(i), State: tick.Closed, Outcome: run.Missed, Ended: w.at(i)})
	}
	stays := w.elsewhere("j", many+60)
	w.check("AppendRuns", w.s.History.AppendRuns(w.ctx, append(runs, stays)))
	w.check("Append", w.s.History.Append(w.ctx, events))
	w.check("AppendTicks", w.s.History.AppendTicks(w.ctx, ticks))
	for _, r := range []run.Record{runs[0], runs[many-1], stays} {
		w.check("Output", w.s.History.Output(w.ctx, r.ID, []byte("x")))
	}
	n, more, err := w.s.History.Prune(w.ctx, w.at(many))
	w.check("Prune", err)
	equal(w, "there is more after the first step", more, true)
	if n < history.Step || n > 3*history.Step {
		w.Errorf("rows that went with the first step: %d, want %d to %d", n, history.Step, 3*history.Step)
	}
	equal(w, "rows that went in all", n+w.prune(w.at(many)), 3*many)
	equal(w, "runs that are left", len(w.runs(history.Query{Limit: 1000})), 1)
	equal(w, "ticks that are left", len(w.rows(history.Query{Limit: 1000})), 0)
	equal(w, "events that are left", len(w.events(history.Query{Limit: 1000})), 0)
	w.check("AppendTicks", w.s.History.AppendTicks(w.ctx, []tick.Tick{
		{Job: "j", At: w.at(0), Through: w.at(120), Count: 121, State: tick.Closed, Outcome: run.Missed, Ended: w.at(120)}}))
	equal(w, "a range that reaches into what stays", w.prune(w.at(60)), 0)
	equal(w, "its rows", len(w.rows(history.Query{Limit: 1000})), 1)
	for id, want := range map[string]int{runs[0].ID: 0, runs[many-1].ID: 0, stays.ID: 1} {
		b, err := w.s.History.ReadOutput(w.ctx, id)
		w.check("ReadOutput", err)
		equal(w, "bytes of output that are left", len(b), want)
	}
}

func pruneOutputs(w *world) {
	const keep, beyond = 5, history.Step + 20
	var runs []run.Record
	for i := range keep + beyond {
		runs = append(runs, w.elsewhere("j", i))
	}
	silent := w.elsewhere("j", keep+beyond) // counts, though it printed nothing
	other := w.elsewhere("k", 0)
	w.check("AppendRuns", w.s.History.AppendRuns(w.ctx, append(runs, silent, other)))
	for _, r := range append(runs, other) {
		w.check("Output", w.s.History.Output(w.ctx, r.ID, []byte("x")))
	}
	for i, want := range []int{history.Step, beyond + 1 - history.Step, 0} {
		n, err := w.s.History.PruneOutputs(w.ctx, "j", keep+i*history.Step)
		w.check("PruneOutputs", err)
		equal(w, fmt.Sprintf("outputs that went with step %d", i+1), n, want)
	}
	for what, c := range map[string]struct {
		of   run.Record
		want int
	}{"the oldest": {runs[0], 0}, "the first beyond": {runs[beyond], 0}, "the last that is kept": {runs[beyond+1], 1},
		"the newest": {runs[len(runs)-1], 1}, "another job's": {other, 1}} {
		b, err := w.s.History.ReadOutput(w.ctx, c.of.ID)
		w.check("ReadOutput", err)
		equal(w, "the output of "+what, len(b), c.want)
	}
	equal(w, "runs that are left", len(w.runs(history.Query{Limit: 1000})), keep+beyond+2)
}

func historyApart(w *world) {
	beside := *w
	beside.config.Namespace += "x"
	other := beside.prepare()
	r := w.elsewhere("j", 1)
	w.check("AppendRuns", other.History.AppendRuns(w.ctx, []run.Record{r}))
	w.check("Output", other.History.Output(w.ctx, r.ID, []byte("x")))
	w.check("Append", other.History.Append(w.ctx, []history.Event{{Kind: "k"}}))
	equal(w, "runs here", len(w.runs(history.Query{})), 0)
	equal(w, "events here", len(w.events(history.Query{})), 0)
	if b, _ := w.s.History.ReadOutput(w.ctx, r.ID); b != nil {
		w.Errorf("output of the other namespace: %q", b)
	}
	if w.s.Ticks == nil {
		return
	}
	ref := w.server(other)
	w.won(other, "j", w.at(0), ref)
	beside.setJob(other, "j", "{}", w.at(5))
	equal(w, "the job here", w.job("j"), tick.Job{})
	equal(w, "ticks here", len(w.rows(history.Query{})), 0)
	equal(w, "a claim under a lease of the other namespace", w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(0), Lease: ref}).Status, tick.Lapsed)
	w.won(w.s, "j", w.at(0), w.server(w.s))
}
