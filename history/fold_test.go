package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
)

// Folding loses no event, in whatever order.
// Holds: promise 24.
func TestFoldCountsExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 3, 1, 4, 15, 0, 1000, time.UTC)
	for range 100 {
		n := 1 + rng.IntN(50)
		all := make([]history.Event, n)
		for i := range all {
			all[i] = history.Event{At: at.Add(time.Duration(i) * time.Second), Kind: "k", Reason: "held by a (b)", Tick: at}
		}
		for len(all) > 1 {
			i := rng.IntN(len(all) - 1)
			all = append(append(all[:i:i], history.Fold(all[i], all[i+1])), all[i+2:]...)
		}
		got, first, last := all[0].Times()
		if got != n || !first.Equal(at) || !last.Equal(at.Add(time.Duration(n-1)*time.Second)) || all[0].Why() != "held by a (b)" {
			t.Fatalf("%d events are folded into %+v", n, all[0])
		}
		if l, ok := all[0].Like(); !ok || l.Why != "held by a (b)" {
			t.Fatalf("it is like %+v", l)
		}
	}
}

// Only what nobody would tell apart is folded: a run is told by itself, and each host for its own part.
func TestWhatIsLikeEachOther(t *testing.T) {
	e := history.Event{At: time.Now(), Kind: "k", Key: "key", Job: "j", Host: "h", Reason: "why"}
	like, ok := e.Like()
	if !ok {
		t.Error("an event of no run is like none")
	}
	for name, change := range map[string]func(*history.Event){
		"kind":   func(e *history.Event) { e.Kind = "other" },
		"key":    func(e *history.Event) { e.Key = "other" },
		"job":    func(e *history.Event) { e.Job = "other" },
		"host":   func(e *history.Event) { e.Host = "other" },
		"reason": func(e *history.Event) { e.Reason = "other" },
	} {
		other := e
		change(&other)
		if l, _ := other.Like(); l == like {
			t.Errorf("events of another %s are alike", name)
		}
	}
	later := history.Fold(e, e)
	if l, ok := later.Like(); !ok || l != like {
		t.Errorf("what was folded is like %+v", l)
	}
	e.RunID = "r"
	if _, ok := e.Like(); ok {
		t.Error("an event of a run is like others")
	}
}
