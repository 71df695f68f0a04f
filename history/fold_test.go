package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
)

// However events are folded, none is lost.
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
