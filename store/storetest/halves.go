package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A Saboteur lets statements of a store fail.
type Saboteur interface {
	// Arm has the next statement but n fail, once, on whatever connection it is sent; negative: none. Fired
	// says whether it did.
	Arm(n int)
	Fired() bool
	// State is what the store keeps, by sort. Rough leaves out what each repetition of a call changes: instants.
	State(t testing.TB, rough bool) map[string]string
}

// mostStatements is more than any step is made of.
const mostStatements = 500

// RunHalves makes each statement of each step fail in turn, and finds nothing half done afterwards: what the store
// keeps is what it kept before, or all of what the step does. Who is told of an error knows neither, and asks again.
func RunHalves(t *testing.T, s *store.Store, f Saboteur) {
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &maker{TB: t, s: s, batch: 3, base: now.Add(-time.Hour).Truncate(time.Second)}
	m.oldThings()
	for _, step := range m.steps() {
		if step.Prepare != nil {
			step.Prepare()
		}
		n := 0
		*step.again = false
		for halved(t, f, step, n) {
			if n++; n > mostStatements {
				t.Fatalf("%s: it never ends", step.What)
			}
		}
		t.Logf("%s: %d statements", step.What, n)
		if n == 0 {
			t.Errorf("%s: no statement of it failed", step.What)
		}
	}
}

// halved reports whether there was a statement n to fail.
func halved(t *testing.T, f Saboteur, step Step, n int) bool {
	t.Helper()
	before := f.State(t, false)
	var roughly map[string]string
	if step.apart {
		roughly = f.State(t, true)
	}
	f.Arm(n)
	err := step.Do()
	fired := f.Fired()
	f.Arm(-1)
	switch {
	case !fired && err != nil:
		t.Errorf("%s: %v", step.What, err)
		return false
	case !fired:
		return false
	case err == nil:
		t.Errorf("%s: nobody was told that statement %d failed", step.What, n)
	}
	if after := f.State(t, false); maps.Equal(after, before) {
		return true
	}
	half := f.State(t, true)
	*step.again = true
	if err := step.Do(); err != nil {
		t.Errorf("%s, repeated after statement %d failed: %v", step.What, n, err)
	}
	whole := f.State(t, true)
	if step.apart { // each sort by itself
		for _, sort := range slices.Sorted(maps.Keys(whole)) {
			if half[sort] != roughly[sort] && half[sort] != whole[sort] {
				t.Errorf("%s: when statement %d failed it was half done:\n%s\n%s\n%s", step.What, n, roughly[sort], half[sort], whole[sort])
			}
		}
	} else if !maps.Equal(half, whole) {
		t.Errorf("%s: when statement %d failed it was half done:\n%v\n%v\n%v", step.What, n, before, half, whole)
	}
	return true
}

// oldThings are to be pruned: each sort is a step of its own.
func (m *maker) oldThings() {
	ctx, h := m.Context(), m.s.History
	m.all = append(m.all, Step{What: "prune what is old", Items: 3 * m.batch, apart: true, again: &m.again, Prepare: func() {
		for i := range m.batch {
			at := m.base.Add(-48*time.Hour + time.Duration(i)*time.Second)
			id := fmt.Sprintf("old-%d", i)
			m.need("AppendTicks", h.AppendTicks(ctx, []tick.Tick{{Job: "app/old", At: at, State: tick.Closed, Outcome: run.Missed}}))
			m.need("AppendRuns", h.AppendRuns(ctx, []run.Record{{ID: id, Job: "app/old", Started: at, Ended: at, Outcome: run.Succeeded}}))
			m.need("Output", h.Output(ctx, id, []byte("x")))
			m.need("Append", h.Append(ctx, []history.Event{{ID: id, At: at, Kind: "k"}}))
		}
	}, Do: func() error {
		_, _, err := h.Prune(ctx, m.base.Add(-24*time.Hour))
		return err
	}})
}
