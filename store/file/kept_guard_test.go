//go:build linux

package file

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// No step on ticks, jobs and history takes more than its own rows do, beside very many of others: of other
// applications, some of which are gone and never ended their ticks, finished ones, and ranges that end late.
// Holds: promise 26.
func TestEachStepOnTicksIsBoundedBesideManyNeighbours(t *testing.T) {
	testsize.Counts(t)
	const eachRow, lookRows = 300, 2000 // steps of SQLite's machine, for each row and besides
	n := testsize.Of(1000, 100_000)
	m := metered(t)
	config := configAt(t.TempDir(), true)
	config.TTL = 24 * time.Hour
	s, err := OpenConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step := func(what string, rows int, do func()) {
		t.Helper()
		steps, worst := m.took(do)
		t.Logf("%-45s %9d steps, for %d rows", what, steps, rows)
		if most := int64(rows*eachRow + lookRows); steps > most {
			t.Errorf("%s: one transaction took %d steps, more than %d; most of them: %.300s", what, steps, most, worst)
		}
	}
	a, err := tryAcquire(s, requestFor("mine", 24*time.Hour))
	must(err)
	mine := a.Record.Ref()
	begin := time.Now().UTC().Truncate(time.Second)
	long := begin.Add(-1000 * time.Hour)
	us := func(at time.Time) int64 { return at.UnixMicro() }
	neighbours := func(text string, args ...any) {
		t.Helper()
		must(inside(s).write(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?1) "+text, append([]any{10 * n}, args...)...)
			return err
		}))
	}
	nobody := lease.Nonce{}.String()
	const ticksOf = `INSERT INTO dibs_ticks (job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
		SELECT %s, ?2 + n * %d, ?2 + n * %d + %d, 1, '%s', '', '` + "%s" + `', 1, '{}', '', '%s', '', 0, 0, 1, 0, 1 FROM i`
	neighbours(fmt.Sprintf(ticksOf, "'gone/j' || (n % 100)", 1000, 1000, 0, "claimed", nobody, ""), us(long))
	neighbours(fmt.Sprintf(ticksOf, "'other/j' || (n % 100)", 1000, 1000, 0, "closed", nobody, "missed"), us(long))
	for _, app := range []string{"'a' || n || '/j'", "'z' || n || '/j'"} {
		neighbours(fmt.Sprintf(ticksOf, app, 1000, 1000, 0, "claimed", nobody, ""), us(begin))
		neighbours(fmt.Sprintf(ticksOf, app, 1000, 1000, 500, "closed", nobody, "missed"), us(long))
	}
	neighbours(fmt.Sprintf(ticksOf, "'host/j' || (n % 100)", 1000, 1000, 500, "closed", nobody, "missed"), us(begin))
	neighbours(`INSERT INTO dibs_runs (id, job, tick, lease_key, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts)
		SELECT 'r' || n, 'other/j' || (n % 100), 0, '', ?3, 1, 'h', 1, '', 'succeeded', '', 0, ?2 + n, ?2 + n, 'null' FROM i`, us(begin)-int64(20*n), nobody)
	neighbours(`INSERT INTO dibs_events (at, kind, key, job, tick, run_id, host, reason) SELECT ?2 + n, 'x', '', 'other/j' || (n % 100), 0, 'r' || n, '', '' FROM i`,
		us(begin)-int64(20*n))
	_, err = s.Ticks.SetJobs(ctx, func() (all []tick.JobRequest) {
		for i := range n {
			for _, name := range []string{"other/x", "zoo/x"} {
				all = append(all, tick.JobRequest{Name: fmt.Sprint(name, i), Definition: "{}", Since: long})
			}
		}
		return all
	}())
	must(err)

	var claims []tick.ClaimRequest
	var starts []tick.StartRequest
	var ends []tick.CloseRequest
	var jobs []tick.JobRequest
	var names []string
	for i := range 2000 {
		at := begin.Add(-time.Duration(i) * time.Minute)
		r := run.Record{ID: fmt.Sprint("own", i), Job: "own/j", Tick: at, Owner: mine.Owner, Token: mine.Token}
		claims = append(claims, tick.ClaimRequest{Job: "own/j", At: at, Lease: mine})
		starts = append(starts, tick.StartRequest{Run: r, Claim: mine, Lease: mine})
		r.Outcome = run.Failed
		ends = append(ends, tick.CloseRequest{Run: r, Claim: mine})
		names = append(names, fmt.Sprint("own/x", i))
		jobs = append(jobs, tick.JobRequest{Name: names[i], Definition: "{}", Since: long})
	}
	step("claim many", maxBatch, func() { _, err := s.Ticks.Claim(ctx, claims); must(err) })
	step("start many", maxBatch, func() { _, err := s.Ticks.Start(ctx, starts); must(err) })
	step("close many", maxBatch, func() {
		a, err := s.Ticks.Close(ctx, ends)
		if must(err); a[0].Status != tick.Won {
			t.Errorf("%+v", a[0])
		}
	})
	step("register many", maxBatch, func() { _, err := s.Ticks.SetJobs(ctx, jobs); must(err) })
	step("jobs by their names", maxBatch, func() {
		all, err := s.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
		if must(err); len(all) != len(names) {
			t.Errorf("%d jobs", len(all))
		}
	})
	step("jobs of an application", maxBatch, func() { _, err := s.Ticks.Jobs(ctx, tick.JobQuery{Prefix: "own/"}); must(err) })
	step("pause a job", 1, func() { _, err := s.Ticks.Pause(ctx, tick.PauseRequest{Job: names[1]}); must(err) })
	step("unfinished of an application", 1, func() { _, err := s.Ticks.Orphans(ctx, tick.Look{Prefix: "own/"}); must(err) })
	step("unfinished of an application, a late page", 1, func() {
		_, err := s.Ticks.Orphans(ctx, tick.Look{Prefix: "own/", After: tick.Spot{Job: "own/j", At: begin.Add(time.Hour)}})
		must(err)
	})
	step("unfinished of all, a late page", maxBatch, func() {
		f, err := s.Ticks.Orphans(ctx, tick.Look{After: tick.Spot{Job: "own/k"}})
		if must(err); len(f.Ticks) == 0 || !f.More() {
			t.Errorf("%d ticks, more: %v", len(f.Ticks), f.More())
		}
	})
	step("jobs, a late page", maxBatch, func() { _, err := s.Ticks.Jobs(ctx, tick.JobQuery{Prefix: "own/", After: "own/x7"}); must(err) })
	step("unfinished of all", maxBatch, func() { _, err := s.Ticks.Orphans(ctx, tick.Look{}); must(err) })
	step("owed of an application", 1, func() { _, err := s.Ticks.Owed(ctx, tick.OwedLook{App: "own"}); must(err) })
	step("owed of another one", maxBatch, func() { _, err := s.Ticks.Owed(ctx, tick.OwedLook{App: "other"}); must(err) })

	all, err := s.Ticks.Jobs(ctx, tick.JobQuery{Names: names[:1]})
	must(err)
	mark := all[0].Mark
	rows := min(max(n, 3000), 10_000)
	q := tick.SettleRequest{Job: names[0], From: mark, To: mark.Add(3 * time.Duration(rows) * time.Second)}
	for i := range rows {
		row := tick.Tick{Job: names[0], At: mark.Add(time.Duration(3*i+1) * time.Second), Outcome: run.Missed}
		if i%2 == 0 {
			row.Through, row.Count = row.At.Add(time.Second), 2
		}
		q.Rows = append(q.Rows, row)
	}
	step("settle very many", maxBatch, func() { _, err := s.Ticks.Settle(ctx, q); must(err) })
	if all, err = s.Ticks.Jobs(ctx, tick.JobQuery{Names: names[:1]}); err != nil || !all[0].Mark.Equal(q.To) {
		t.Errorf("the mark is %v, want %v: %v", all[0].Mark, q.To, err)
	}
	if there, err := s.History.Ticks(ctx, history.Query{Job: names[0], Limit: 10_000}); err != nil || len(there) != len(q.Rows) {
		t.Errorf("%d rows, want %d: %v", len(there), len(q.Rows), err)
	}

	h := s.History
	step("ticks of a job", 100, func() { _, err := h.Ticks(ctx, history.Query{Job: "own/j"}); must(err) })
	step("ticks of a job, from then on", 100, func() {
		_, err := h.Ticks(ctx, history.Query{Job: "own/j", From: begin.Add(-time.Hour)})
		must(err)
	})
	step("ticks of all", 100, func() { _, err := h.Ticks(ctx, history.Query{}); must(err) })
	step("runs of a job", 100, func() { _, err := h.Runs(ctx, history.Query{Job: "own/j"}); must(err) })
	step("runs of a job that has none", 1, func() { _, err := h.Runs(ctx, history.Query{Job: "own/none"}); must(err) })
	step("a run", 1, func() {
		runs, err := h.Runs(ctx, history.Query{RunID: "own1"})
		if must(err); len(runs) != 1 {
			t.Errorf("%+v", runs)
		}
	})
	step("the latest of jobs that have none", 1, func() { _, err := h.Latest(ctx, names[:3], 10); must(err) })
	step("the latest ticks of jobs that have none", 1, func() { _, err := h.LatestTicks(ctx, names[:3], 10); must(err) })
	step("events of a job that has none", 1, func() { _, err := h.Events(ctx, history.Query{Job: "own/none"}); must(err) })
	step("events of a run", 1, func() { _, err := h.Events(ctx, history.Query{RunID: "r7"}); must(err) })
	step("events", 100, func() { _, err := h.Events(ctx, history.Query{}); must(err) })
	step("outputs", history.Step, func() { _, err := h.PruneOutputs(ctx, "own/j", 1000); must(err) })

	// What must stay keeps nothing else from going.
	last := tick.Tick{Job: "last/j", At: begin.Add(-100 * time.Hour), State: tick.Closed, Outcome: run.Missed}
	must(h.AppendTicks(ctx, []tick.Tick{last}))
	steps := 0
	for more := true; more; steps++ {
		if steps > n {
			t.Fatal("pruning never comes to an end")
		}
		do := func() { _, more, err = h.Prune(ctx, begin.Add(-90*time.Hour)); must(err) }
		if steps%20 == 0 {
			step("prune", prunedLook/5, do)
		} else {
			do()
		}
	}
	if there, err := h.Ticks(ctx, history.Query{Job: last.Job}); err != nil || len(there) > 0 {
		t.Errorf("it is kept beside what is older and must stay: %v, %v", there, err)
	}
}
