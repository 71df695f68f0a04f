package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A cycle acquires a key and releases it. It is called by many goroutines at once, each with keys
// of its own, so that nobody waits for anybody but the store.
type cycle func(ctx context.Context, key string) error

// a named cycle.
type library struct {
	name  string
	cycle cycle
}

const (
	ttl = 15 * time.Second // dibs's default, for all
	// keysEach is how many keys a goroutine goes through in turn.
	keysEach = 8
)

// compare has the libraries take turns, with one goroutine and with 32. server is the processor time that the server
// has used so far. The times that a cycle takes of the processors stay comparable while the machine has other work.
func compare(ctx context.Context, w io.Writer, o options, title string, server func() time.Duration, libraries []library) error {
	for _, n := range []int{1, 32} {
		var contestants []contestant
		costs := make([]struct{ here, there []float64 }, len(libraries))
		for i, l := range libraries {
			contestants = append(contestants, contestant{l.name, func() (float64, error) {
				here, there := ownTime(), server()
				cycles, took, err := rate(ctx, n, o.turn, l.cycle)
				costs[i].here = append(costs[i].here, (ownTime()-here).Seconds()*1e6/cycles)
				costs[i].there = append(costs[i].there, (server()-there).Seconds()*1e6/cycles)
				return cycles / took.Seconds(), err
			}})
		}
		t, err := play(o.rounds, contestants)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s, %d at once (median, range of %d rounds)\n", title, n, o.rounds)
		t.print(w, showRate)
		for i, l := range libraries {
			fmt.Fprintf(w, "  %-12s %.1f µs of the processors per cycle here, %.1f of the server's\n",
				l.name, median(costs[i].here[1:]), median(costs[i].there[1:]))
		}
	}
	return nil
}

// rate is how many cycles n goroutines make in a time.
func rate(ctx context.Context, n int, d time.Duration, c cycle) (cycles float64, took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		done   atomic.Int64
		all    sync.WaitGroup
		keys   = ownKeys(n)
		began  = time.Now()
		finish = began.Add(d)
	)
	for i := range n {
		all.Go(func() {
			for j := 0; time.Now().Before(finish) && ctx.Err() == nil; j++ {
				if err := c(ctx, keys[i][j%keysEach]); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()), time.Since(began), context.Cause(ctx)
}

func ownKeys(n int) [][]string {
	keys := make([][]string, n)
	for i := range keys {
		for j := range keysEach {
			keys[i] = append(keys[i], fmt.Sprintf("goroutine-%d/job-%d", i, j))
		}
	}
	return keys
}
