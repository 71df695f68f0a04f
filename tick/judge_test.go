package tick_test

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/verdicts"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// The table to which every store is held too: see package verdicts.
func TestVerdicts(t *testing.T) {
	for _, c := range verdicts.Cases() {
		kind := "close"
		switch {
		case c.Claim != nil:
			kind = "claim"
		case c.Take != nil:
			kind = "take"
		case c.Start != nil:
			kind = "start"
		}
		t.Run(kind+" "+c.Name, func(t *testing.T) {
			v := c.Verdict()
			if v.Status != c.Want || (v.Tick != nil) != c.Tick || (v.Run != nil) != c.Run {
				t.Errorf("%v, writes a tick: %v, a run: %v; want %v, %v, %v", v.Status, v.Tick != nil, v.Run != nil, c.Want, c.Tick, c.Run)
			}
			if want := c.Want; want == tick.Won && (c.Tick || c.Run) && v.After(tick.Taken) != tick.Taken || want != tick.Won && v.After(0) != want {
				t.Errorf("afterwards: %v", v.After(tick.Taken))
			}
			again := c.Facts // what was written is what a server's client judges
			if v.Tick != nil {
				again.Tick = *v.Tick
			}
			if v.Run != nil && v.Run.ID == runID(c) {
				again.Run = *v.Run
			}
			c.Facts = again
			if a := c.Verdict().After(tick.Taken); a != c.Want {
				t.Errorf("judged once more: %v, want %v", a, c.Want)
			}
		})
	}
}

// runID is the run of a request: a take's is the row's, which no longer names it.
func runID(c verdicts.Case) string {
	switch {
	case c.Start != nil:
		return c.Start.Run.ID
	case c.Close != nil:
		return c.Close.Run.ID
	}
	return ""
}

func TestSettlings(t *testing.T) {
	for _, c := range verdicts.Settlings() {
		t.Run(c.Name, func(t *testing.T) {
			s, job, rows := tick.JudgeSettle(c.Ask, c.Job, c.Above, verdicts.Now)
			if s != c.Want || !job.Mark.Equal(c.Mark) {
				t.Errorf("%v, up to %v; want %v, up to %v", s, job.Mark, c.Want, c.Mark)
			}
			there := map[int64]bool{}
			for _, row := range c.Above {
				there[row.At.UnixMicro()] = true
			}
			var want []int64
			for _, i := range c.Inserted {
				want = append(want, c.Ask.Rows[i].At.UnixMicro())
			}
			n := 0
			for _, row := range rows {
				if there[row.At.UnixMicro()] {
					continue // insert or nothing
				}
				if n == len(want) || row.At.UnixMicro() != want[n] || row.State != tick.Closed || row.Outcome != run.Missed || row.Ended.IsZero() {
					t.Fatalf("row %d: %+v", n, row)
				}
				n++
			}
			if n != len(want) {
				t.Errorf("%d rows, want %d", n, len(want))
			}
		})
	}
}

// What a verdict writes: a re-run is counted, and forgets its run; a run keeps what it was started with.
func TestWhatAVerdictWrites(t *testing.T) {
	began := verdicts.Ago(7)
	row := tick.Tick{Job: verdicts.Job, At: verdicts.At, State: tick.Started, Lease: verdicts.Dead, RunID: "run", Reruns: 1, Started: began}
	known := run.Record{ID: "run", Job: verdicts.Job, Host: "h", Tick: verdicts.At, Started: began}
	v := tick.JudgeTake(tick.TakeRequest{Job: verdicts.Job, At: verdicts.At, From: verdicts.Dead, Lease: verdicts.Mine, Rerun: true},
		tick.Facts{Now: verdicts.Now, Tick: row, Run: known, Live: true})
	want := tick.Tick{Job: verdicts.Job, At: verdicts.At, State: tick.Claimed, Lease: verdicts.Mine, Claimed: verdicts.Now, Reruns: 2, Live: true}
	if v.Tick == nil || *v.Tick != want {
		t.Errorf("taken over: %+v", v.Tick)
	}
	if r := v.Run; r == nil || r.Outcome != run.Crashed || !r.Inferred || r.Host != "h" || !r.Started.Equal(began) || !r.Ended.Equal(verdicts.Now) {
		t.Errorf("its run: %+v", v.Run)
	}
	report := run.Record{ID: "run", Outcome: run.Failed, Reason: "why", Host: "forged", Attempts: []run.Attempt{{N: 1}}}
	v = tick.JudgeClose(tick.CloseRequest{Run: report}, tick.Facts{Now: verdicts.Now, Tick: row, Run: known})
	if r := v.Run; r == nil || r.Host != "h" || r.Reason != "why" || len(r.Attempts) != 1 || !r.Ended.Equal(verdicts.Now) {
		t.Errorf("the run that ended: %+v", v.Run)
	}
	if v.Tick == nil || v.Tick.Reason != "why" || v.Tick.Reruns != 1 || !v.Tick.Ended.Equal(verdicts.Now) {
		t.Errorf("its tick: %+v", v.Tick)
	}
}
