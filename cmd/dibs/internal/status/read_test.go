package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/testsize"
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

// asked counts the requests for history, and can fail those for ticks.
type asked struct {
	history.Store
	n       atomic.Int64
	answers func(context.Context) error
}

func (a *asked) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	a.n.Add(1)
	if a.answers != nil {
		if err := a.answers(ctx); err != nil {
			return nil, err
		}
	}
	return a.Store.Ticks(ctx, q)
}

func (a *asked) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	a.n.Add(1)
	return a.Store.LatestTicks(ctx, jobs, n)
}

// However many jobs are overdue or late, they share requests.
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

// mute is a lease store that can fall silent.
type mute struct {
	lease.Store
	silent bool
}

func (m *mute) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	if m.silent {
		return lease.Reply{}, silence(ctx)
	}
	return m.Store.Read(ctx, keys)
}

func silence(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
}

// A store that answers is not called silent, however long the rest takes; one that no longer does is not called slow.
func TestASlowStoreIsNotASilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		leases := &mute{Store: y.s.Leases}
		k, err := lease.NewKeeper(lease.Options{Store: leases, Clock: clock.Virtual{Start: time.Now()}})
		y.must(err)
		defer k.Close()
		past := &asked{Store: y.b.History, answers: silence}
		y.b.Keeper, y.b.History = k, past
		read := func(ctx context.Context) error {
			_, err := status.Read(ctx, y.b, y.s, status.Options{})
			return err
		}
		began := time.Now()
		err = status.Within(context.Background(), 10*time.Second, k, read)
		if !errors.Is(err, status.ErrSlow) || errors.Is(err, lease.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		away := func(when string, err error) {
			t.Helper()
			if errors.Is(err, status.ErrSlow) || !errors.Is(err, lease.ErrUnavailable) {
				t.Errorf("%s: %v", when, err)
			}
		}
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		away("within the caller's own time", status.Within(bounded, 10*time.Second, k, read))
		past.answers = func(context.Context) error { return fmt.Errorf("%w: refused", lease.ErrUnavailable) }
		away("refused at once", status.Within(context.Background(), 10*time.Second, k, read))
		past.answers, leases.silent = silence, true
		away("silent", status.Within(context.Background(), 10*time.Second, k, read))
	})
}

// What reaches into the day from before it, such as long pauses, does not make the rows older than the day known.
func TestLongPausesHideNoRow(t *testing.T) {
	testsize.Counts(t)
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		y.register("other/rare", "0 1 2 1 *")
		at := time.Date(2000, 1, 2, 1, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(at.Add(47 * time.Hour)))
		now := time.Now()
		rows := []tick.Tick{{Job: "other/rare", At: at, State: tick.Closed, Outcome: run.Succeeded}}
		for i := range 4990 {
			rows = append(rows, tick.Tick{Job: "shop/busy", At: now.Add(-time.Duration(i+1) * time.Second), State: tick.Closed, Outcome: run.Succeeded})
		}
		for i := range 20 {
			rows = append(rows, tick.Tick{Job: fmt.Sprint("shop/paused-", i), At: now.Add(-73 * time.Hour), Through: now.Add(-time.Hour), Count: 72, State: tick.Closed, Outcome: run.Paused})
		}
		y.must(y.s.History.AppendTicks(context.Background(), rows))
		y.says("nothing is wrong")
	})
}

// Of jobs with more rows above their mark than are read together, everything is told as far as rows go back.
func TestManyRowsAboveTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)))
		y := newYard(t)
		var rows []tick.Tick
		for i := range 120 {
			name := fmt.Sprintf("other/often-%d", i)
			y.register(name, "*/5 * * * *")
			for at := time.Now(); at.Before(time.Now().Add(23 * time.Hour)); at = at.Add(5 * time.Minute) {
				if h := time.Until(at); h >= 0 && (h < 11*time.Hour || h > 12*time.Hour) {
					rows = append(rows, tick.Tick{Job: name, At: at, State: tick.Closed, Outcome: run.Succeeded})
				}
			}
		}
		y.must(y.s.History.AppendTicks(context.Background(), rows))
		time.Sleep(23 * time.Hour)
		y.reports()
		f := y.read(status.Options{})
		jobs := map[string]bool{}
		for _, t := range f.Unsettled {
			jobs[t.Job] = true
		}
		if cut := strings.Join(f.Cut, "; "); len(jobs) != 100 || !strings.Contains(cut, "of 20 jobs only the latest ticks") {
			t.Errorf("missed ticks of %d jobs are told; cut: %s", len(jobs), cut)
		}
		f = y.read(status.Options{Jobs: []string{"other/often-119"}})
		if len(f.Unsettled) != 1 || f.Unsettled[0].Count != 13 || len(f.Cut) > 0 {
			t.Errorf("of one job: %+v, cut %q", f.Unsettled, f.Cut)
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

// The last success of a job is known although it has failed since, however long, and whether it is a copy of a host's.
func TestLastSuccesses(t *testing.T) {
	testsize.Counts(t)
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		time.Sleep(300 * time.Hour)
		now := time.Now().Truncate(time.Second)
		var rows []tick.Tick
		for name, ends := range map[string][]run.Outcome{ // one an hour, the latest first
			"shop/good": {run.Succeeded}, "shop/fails": {run.Failed, run.Succeeded}, "shop/skipped": {run.Skipped, run.Succeeded},
			"shop/never": {run.Failed}, "shop/long": append(slices.Repeat([]run.Outcome{run.Failed}, 50), run.Succeeded),
			"shop/longer": append(slices.Repeat([]run.Outcome{run.Failed}, 150), run.Succeeded),
		} {
			y.register(name, "0 0 1 1 *")
			for i, o := range ends {
				at := now.Add(-time.Hour - time.Duration(i)*30*time.Hour/time.Duration(max(len(ends)/5, 1)))
				rows = append(rows, tick.Tick{Job: name, At: at, State: tick.Closed, Outcome: o, Ended: at.Add(time.Minute)})
			}
		}
		y.must(y.s.History.AppendTicks(context.Background(), rows))
		lasts := y.read(status.Options{Lasts: true}).Lasts()
		for name, want := range map[string]bool{"shop/good": true, "shop/fails": true, "shop/skipped": true, "shop/never": false, "shop/long": true, "shop/longer": false} {
			if got := lasts[name]; got.Success.IsZero() == want {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if l := lasts["shop/fails"]; l.Outcome != run.Failed || !l.Success.Equal(now.Add(-31*time.Hour+time.Minute)) || !l.End.Equal(now.Add(-59*time.Minute)) {
			t.Errorf("%+v", l)
		}
	})
}
