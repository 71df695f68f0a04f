package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
)

// Steps whose tasks are not handed in, or asked for, a thousand at a time: what they do is for others.
var forOthers = []string{
	"raise a limit", "lower a limit", "raise a limit again", "declare another one by an enqueue", "raise a limit of many kinds", "supersede: fetch",
	"pause", "resume", "fetch of what is paused", "fetch of what is paused no more", "fetch of what has expired", "show one of a limit",
}

// No script does more than its bound, however many tasks there are: counted in the values that its commands are
// given, and answer with. Steps are a fraction of what they are elsewhere, so that fewer tasks tell.
// Holds: promise 18.
func TestEveryStepIsBounded(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	const (
		step    = 50
		own     = 1000 // what is handed in at once, or asked for
		perTask = 20   // values
		other   = 1000 // values that every script may have, such as of the sub-queues that it looks at
	)
	c := config(t, ownServer(t).URL+"?read_timeout=1m") // on a busy machine
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	probes(s, step)
	raw, prefix := rawClient(t, c), "dibs:{"+c.Namespace+"}:"
	most := map[string]probed{}
	sc := &scale{TB: t, s: s, n: testsize.Of(1500, 50_000), step: func(what string, do func()) {
		drain(t, raw, prefix)
		do()
		worst := most[what]
		for _, r := range drain(t, raw, prefix) {
			worst.Work, worst.Wide, worst.Calls = max(worst.Work, r.Work), max(worst.Wide, r.Wide), max(worst.Calls, r.Calls)
		}
		most[what] = worst
	}}
	sc.run(10 * sc.n) // of each sort of neighbours more than the bound
	for what, w := range most {
		t.Logf("%-40s %6d commands, %7d values, %5d in one", what, w.Calls, w.Work, w.Wide)
		bound := perTask*(own+step) + other
		if slices.Contains(forOthers, what) {
			bound = perTask*step + other
		}
		if w.Work > bound || w.Wide > 3*own {
			t.Errorf("%s: one script had %d values, and %d in one command; want %d and %d at most", what, w.Work, w.Wide, bound, 3*own)
		}
	}
	for _, what := range forOthers {
		if most[what].Calls == 0 {
			t.Errorf("%q was not looked at", what)
		}
	}
}
