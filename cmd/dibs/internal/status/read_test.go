package status_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
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
