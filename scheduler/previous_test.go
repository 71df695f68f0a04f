package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
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

// A run that waited for the one before it is told of that one's success, which came while it waited.
func TestTheSuccessThatWasWaitedForIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		told := map[time.Time]time.Time{}
		target := run.Func(func(_ context.Context, c run.Call) error {
			mu.Lock()
			told[c.Run.Tick] = c.PreviousSuccess
			mu.Unlock()
			time.Sleep(90 * time.Second)
			return nil
		})
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", target, func(p *job.Policy) { p.Concurrency = job.Wait }))
		time.Sleep(4 * time.Minute)
		h.stop()
		mu.Lock()
		defer mu.Unlock()
		first := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)
		if got := told[first.Add(time.Minute)]; !got.Equal(first) {
			t.Errorf("the run of the second tick was told %s: the first one had succeeded by then", got)
		}
	})
}

// lateHistory answers in its time, or with its error.
type lateHistory struct {
	history.Store
	after time.Duration
	err   error
}

func (h lateHistory) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	select {
	case <-time.After(h.after):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.err != nil {
		return nil, h.err
	}
	return h.Store.Latest(ctx, jobs, n)
}

// Promise 27: work that is started does not wait for history. That its job's last success is not known is told apart
// from that there is none.
// Holds: promise 27.
func TestAStartDoesNotWaitForHistory(t *testing.T) {
	for _, c := range []struct {
		after   time.Duration
		err     error
		unknown bool
	}{
		{0, nil, false},
		{0, lease.ErrUnavailable, true},
		{50 * time.Millisecond, nil, false},
		{time.Second, nil, true},
		{time.Hour, nil, true},
	} {
		for _, ran := range []bool{false, true} {
			t.Run(fmt.Sprint(c.after, c.err, ran), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					h := w.host(1, 0)
					h.link.Latency = 0
					before := time.Now().UTC()
					var got run.Call
					fire := func() (began time.Duration) {
						begun := time.Now()
						h.backend.Fire(t.Context(), scheduler.Fire{Key: "app/j", Previous: true,
							Policy: job.Policy{Concurrency: job.Forbid},
							Target: run.Func(func(_ context.Context, c run.Call) error {
								got, began = c, time.Since(begun)
								return nil
							})})
						return began
					}
					if ran {
						fire()
					}
					h.backend.History = lateHistory{h.backend.History, c.after, c.err}
					t.Cleanup(func() { time.Sleep(h.backend.Keeper.Margin().RPCTimeout) }) // a request that nobody waits for ends by itself
					began := fire()
					if most := h.backend.Keeper.Margin().RPCTimeout / 8; began > most {
						t.Errorf("the work began after %s, want %s at most", began, most)
					}
					if got.PreviousUnknown != c.unknown || got.PreviousSuccess.Equal(before) != (ran && !c.unknown) {
						t.Errorf("it was told %s, unknown: %t", got.PreviousSuccess, got.PreviousUnknown)
					}
				})
			})
		}
	}
}

// damagedHistory cannot read the runs of one job.
type damagedHistory struct{ history.Store }

func (h damagedHistory) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	time.Sleep(5 * time.Millisecond)
	if slices.Contains(jobs, "app/bad") {
		return nil, errors.New("a damaged row")
	}
	return h.Store.Latest(ctx, jobs, n)
}

// One job whose runs cannot be read does not keep others from being told.
// Holds: L4.
func TestOneDamagedRunSpoilsNoOthersPrevious(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.History = damagedHistory{h.backend.History}
		var unknown atomic.Int32
		var all sync.WaitGroup
		for i := range 50 {
			name := lease.Key(fmt.Sprintf("app/j%d", i))
			if i == 25 {
				name = "app/bad"
			}
			all.Go(func() {
				h.backend.Fire(t.Context(), scheduler.Fire{Key: name, Previous: true, Policy: job.Policy{Concurrency: job.Forbid},
					Target: run.Func(func(_ context.Context, c run.Call) error {
						if c.PreviousUnknown {
							unknown.Add(1)
						}
						return nil
					})})
			})
		}
		all.Wait()
		if n := unknown.Load(); n != 1 {
			t.Errorf("%d of 50 jobs were not told when they succeeded last, for one damaged row", n)
		}
	})
}
