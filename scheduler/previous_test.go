package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
)

// Each run is told the tick of the latest one before it that succeeded, wherever that ran.
func TestThePreviousSuccessIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var told, ticks []time.Time
		target := run.Func(func(_ context.Context, c run.Call) error {
			mu.Lock()
			defer mu.Unlock()
			told, ticks = append(told, c.PreviousSuccess), append(ticks, c.Run.Tick)
			if n := len(told); n >= 3 && n <= 9 {
				return errors.New("no")
			}
			return nil
		})
		for seed := range uint64(2) { // each runs what its turn gives it
			h := w.host(seed+1, 0)
			h.start(t, newJob(t, "* * * * *", target, nil))
			defer h.stop()
		}
		time.Sleep(11 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 11 {
			t.Fatalf("%d runs", len(told))
		}
		for i, from := range []int{-1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 9} { // the third to the ninth fail
			if want := (time.Time{}); from < 0 && told[i] != want || from >= 0 && !told[i].Equal(ticks[from]) {
				t.Errorf("run %d was told %s", i, told[i])
			}
		}
	})
}
