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

// compare has the libraries take turns, with one goroutine and with 32.
func compare(ctx context.Context, w io.Writer, o options, title string, libraries []library) error {
	for _, n := range []int{1, 32} {
		var contestants []contestant
		for _, l := range libraries {
			contestants = append(contestants, contestant{l.name, func() (float64, error) { return rate(ctx, n, o.turn, l.cycle) }})
		}
		t, err := play(o.rounds, contestants)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s, %d at once (median, range of %d rounds)\n", title, n, o.rounds)
		t.print(w, showRate)
	}
	return nil
}

// rate is how many cycles n goroutines make per second.
func rate(ctx context.Context, n int, d time.Duration, c cycle) (float64, error) {
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
	return float64(done.Load()) / time.Since(began).Seconds(), context.Cause(ctx)
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
