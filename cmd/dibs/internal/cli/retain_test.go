package cli

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/run"
)

// One `dibs run` in ten forgets some steps of what is old, where there is no server.
// Holds: T16.
func TestRunForgetsWhatIsOld(t *testing.T) {
	dir := t.TempDir() + "/state"
	a, err := resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	a.Config.Init = true // nobody waits for a new store
	left := func(more ...run.Record) int {
		t.Helper()
		place, err := open(t.Context(), a.Config, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer place.close()
		if err := place.History.AppendRuns(t.Context(), more); err != nil {
			t.Fatal(err)
		}
		runs, err := place.History.Runs(t.Context(), history.Query{Job: "old", Limit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		return len(runs)
	}
	const many = 12 * history.Step
	var old []run.Record
	for i := range many {
		at := time.Now().Add(-91*24*time.Hour - time.Duration(i)*time.Second)
		old = append(old, run.Record{ID: run.NewID(), Job: "old", Outcome: run.Succeeded, Started: at, Ended: at})
	}
	if n := left(old...); n != many {
		t.Fatalf("%d runs", n)
	}
	n, fewer := many, 0
	for range 50 * backend.RetainOneIn { // all of them in vain: one in 10^22
		if n == 0 {
			break
		}
		if status := Exec(context.Background(), []string{"run", "--store", dir, "--key", "k", "--", "true"}, nil, io.Discard, io.Discard); status != 0 {
			t.Fatalf("dibs run: exit status %d", status)
		}
		now := left()
		if n-now > backend.MostAfter*history.Step {
			t.Errorf("%d old runs went at once", n-now)
		}
		if now < n {
			fewer++
		}
		n = now
	}
	if n > 0 || fewer != 2 {
		t.Errorf("%d old runs are left after %d steps", n, fewer)
	}
}
