package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A yard is a store in memory, in virtual time, with one server of app "shop" on record.
type yard struct {
	*testing.T
	s      *store.Store
	b      *scheduler.Backend
	server lease.Ref
}

func newYard(t *testing.T) *yard {
	y := &yard{T: t, s: memory.New(memory.Options{}).Store()}
	k, err := lease.NewKeeper(lease.Options{Store: y.s.Leases, Clock: clock.Virtual{Start: time.Now()}})
	y.must(err)
	y.b = &scheduler.Backend{Keeper: k, Ticks: y.s.Ticks, History: y.s.History, Fleet: y.s.Fleet}
	l, err := k.Acquire(context.Background(), lease.Want{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce(), Host: "web-1"}})
	y.must(err)
	y.server = l.Ref()
	y.reports()
	t.Cleanup(k.Close)
	return y
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) reports() {
	y.must(y.s.Fleet.Report(context.Background(), fleet.Process{ID: lease.Nonce{1}, Lease: y.server, Host: "web-1", PID: 7, App: "shop", Since: time.Now()}))
}

// register registers a job with a schedule, as of now.
func (y *yard) register(name, schedule string) {
	spec := job.Spec{Schedules: []string{schedule}, Timezone: "UTC", Command: &job.Command{Args: []string{"true"}}}
	spec.Policy.StartingDeadline = 10 * time.Minute
	_, err := y.s.Ticks.SetJobs(context.Background(), []tick.JobRequest{{Name: name, Definition: spec.Definition(), Since: time.Now()}})
	y.must(err)
}

func (y *yard) read(o status.Options) status.Facts {
	f, err := status.Read(context.Background(), y.b, y.s, o)
	y.must(err)
	return f
}

// says checks the kinds and subjects of the problems, worst first.
func (y *yard) says(when string, want ...string) {
	y.Helper()
	y.reports() // it does so each minute
	var got []string
	for _, p := range status.Judge(y.read(status.Options{})).Problems {
		got = append(got, fmt.Sprint(p.Kind, " ", p.Subject))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		y.Errorf("%s: %q, want %q", when, got, want)
	}
}

// A tick is late once nobody has claimed it for a while, though a server serves the job. What others fire is late when
// it can no longer start.
func TestWhatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(90 * time.Minute)))
		y := newYard(t)
		for _, name := range []string{"shop/claimed", "shop/late", "cron/fires-it", "a-key"} {
			y.register(name, "0 * * * *")
		}
		y.says("nothing is due")
		time.Sleep(30 * time.Minute)
		y.says("all are due")
		at := time.Now().Truncate(time.Hour)
		if _, err := y.s.Ticks.Claim(context.Background(), []tick.ClaimRequest{{Job: "shop/claimed", At: at, Lease: y.server, NotAfter: at.Add(time.Minute)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		y.says("one is late", "late shop/late")
		if f := y.read(status.Options{Patience: time.Minute}); len(f.Late) != 0 {
			t.Errorf("with more patience %v is late", f.Late)
		}
		if f := y.read(status.Options{Jobs: []string{"shop/claimed"}}); len(f.Late) != 0 || len(f.Jobs) != 1 {
			t.Errorf("of one job alone %v is late", f.Late)
		}
		if f := y.read(status.Options{Jobs: []string{"shop/late"}}); len(f.Late) != 1 {
			t.Error("of one job alone nothing is late")
		}
		time.Sleep(11 * time.Minute)
		y.says("what can no longer start is missed", "failing a-key", "failing cron/fires-it", "failing shop/late")
	})
}

// asked counts the requests for history, and can leave them without an answer.
type asked struct {
	history.Store
	n      atomic.Int64
	silent bool
}

func (a *asked) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	if a.n.Add(1); a.silent {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
	}
	return a.Store.Ticks(ctx, q)
}

func (a *asked) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	a.n.Add(1)
	return a.Store.LatestTicks(ctx, jobs, n)
}

// However many jobs are overdue or late, they share requests; and a few of them may have more ticks than their share.
func TestRequestsOfStatusAreFew(t *testing.T) {
	for _, jobs := range []int{3, 300} {
		for _, busy := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24*time.Hour + 30*time.Minute)))
				y := newYard(t)
				past := &asked{Store: y.b.History}
				y.b.History = past
				for i := range jobs {
					y.register(fmt.Sprintf("shop/late-%d", i), "0 3 * * *")
					y.register(fmt.Sprintf("other/missed-%d", i), "0 * * * *")
				}
				y.register("other/ran", "0 * * * *")
				next := time.Now().Truncate(time.Hour).Add(time.Hour)
				rows := []tick.Tick{{Job: "other/ran", At: next, State: tick.Closed, Outcome: run.Succeeded},
					{Job: "other/ran", At: next.Add(time.Hour), State: tick.Closed, Outcome: run.Succeeded}}
				if busy { // so that the latest rows do not reach back to any of these
					for i := range 6000 {
						rows = append(rows, tick.Tick{Job: "shop/busy", At: time.Now().Add(time.Duration(i) * time.Second), State: tick.Closed, Outcome: run.Succeeded})
					}
				}
				y.must(y.s.History.AppendTicks(context.Background(), rows))
				time.Sleep(2*time.Hour + 35*time.Minute)
				y.reports()
				f := y.read(status.Options{})
				if len(f.Late) != jobs || len(f.Unsettled) != jobs || past.n.Load() > 4 {
					t.Errorf("%d jobs, a busy neighbour %v: %d late, %d unsettled, after %d requests", jobs, busy, len(f.Late), len(f.Unsettled), past.n.Load())
				}
			})
		}
	}
}

// A store that answers is not called silent, however long the rest takes.
func TestASlowStoreIsNotASilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		y.b.History = &asked{Store: y.b.History, silent: true}
		began := time.Now()
		_, err := status.Read(context.Background(), y.b, y.s, status.Options{Within: 10 * time.Second})
		if !errors.Is(err, status.ErrSlow) || errors.Is(err, lease.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := status.Read(bounded, y.b, y.s, status.Options{Within: 10 * time.Second}); errors.Is(err, status.ErrSlow) || !errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("within the caller's own time: %v", err)
		}
	})
}

// Whatever others have done since, the last end of each job is known.
func TestABusyNeighbourHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		time.Sleep(30 * time.Hour)
		now := time.Now().Truncate(time.Second)
		for _, name := range []string{"shop/nightly", "shop/hangs", "shop/weekly", "shop/busy"} {
			y.register(name, "0 0 1 1 *")
		}
		old := func(name string, before time.Duration, o run.Outcome) tick.Tick {
			return tick.Tick{Job: name, At: now.Add(-before), State: tick.Closed, Outcome: o}
		}
		rows := []tick.Tick{old("shop/nightly", 10*time.Hour, run.Missed), old("shop/weekly", 25*time.Hour, run.Failed), old("shop/hangs", 12*time.Hour, run.Failed),
			{Job: "shop/hangs", At: now.Add(-11 * time.Hour), State: tick.Started}}
		for i := range 6000 {
			rows = append(rows, old("shop/busy", time.Duration(i+1)*time.Second, run.Succeeded))
		}
		y.must(y.s.History.AppendTicks(context.Background(), rows))
		y.says("all are known", "failing shop/nightly", "failing shop/hangs", "cut ")
	})
}
