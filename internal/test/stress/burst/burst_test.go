package burst

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/tick"
)

// Short bursts mostly wait for their second, and may be side by side.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testsize.Long() {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

var stores = []struct {
	name   string
	shared func(testing.TB) string
	far    bool // it may be elsewhere
}{
	{"redis", testserver.Redis, true},
	{"postgres", testserver.Postgres, true},
	{"mariadb", testserver.MariaDB, true},
	{"file", func(t testing.TB) string { return "file://" + t.TempDir() }, false},
}

// jobs is how many are due at once. DIBS_TEST_JOBS says it otherwise.
func jobs() int {
	if n, err := strconv.Atoi(os.Getenv("DIBS_TEST_JOBS")); err == nil {
		return n
	}
	return testsize.Of(300, 5_000)
}

// Many jobs are due at one second: each runs once, wherever the store is, and one request asks for many of them.
// Holds: L4.
func TestManyJobsAtOneSecond(t *testing.T) {
	for _, s := range stores {
		for _, each := range []time.Duration{0, 40 * time.Millisecond} {
			if each == 0 || s.far {
				t.Run(s.name+"/away "+(2*each).String(), func(t *testing.T) {
					if !testsize.Long() {
						t.Parallel()
					}
					burst(t, s.shared(t), each, jobs())
				})
			}
		}
	}
}

func burst(t *testing.T, address string, each time.Duration, n int) {
	// Half of it is enough for the jobs to be registered. A slow machine gets more.
	for lead := 5*time.Second + time.Duration(n)*3*time.Millisecond + 20*each; ; lead *= 2 {
		w := &world{t: t, n: n, ran: map[string]int{}}
		w.open(address, each)
		at := time.Now().Add(lead).Truncate(time.Second).UTC()
		if w.serve(at) {
			w.verify(at)
			return
		}
		if lead > 2*time.Minute {
			t.Fatalf("the jobs were not registered in %s", lead)
		}
	}
}

type world struct {
	t       *testing.T
	n       int
	tally   tally
	near    *store.Store
	backend *scheduler.Backend

	mu   sync.Mutex
	ran  map[string]int
	late []time.Duration
}

func (w *world) open(address string, each time.Duration) {
	t := w.t
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace, c.Init = "burst"+lease.NewNonce().String()[:8], true
	if w.near, err = all.OpenConfig(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.near.Close() })
	c.Init = false
	far, err := store.Parse(away(t, address, each))
	if err != nil {
		t.Fatal(err)
	}
	c.URL = far.URL
	st, err := all.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	st = counted(st, &w.tally)
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("DIBS_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	self := lease.Holder{Host: "burst", PID: os.Getpid(), Command: scheduler.ServerCommand("app")}
	w.backend = &scheduler.Backend{Name: st.URL, Keeper: k, Book: tick.NewBook(st.Ticks, k, self), Ticks: st.Ticks,
		History: st.History, Self: self, Descriptor: st.Descriptor, Detach: st.Detach, Log: log}
}

// serve serves the jobs until all have run, or their time to start is over. False: they were registered too late.
func (w *world) serve(at time.Time) (inTime bool) {
	t := w.t
	expr := fmt.Sprintf("%d %d %d * * *", at.Second(), at.Minute(), at.Hour())
	begun := make(chan struct{}, w.n)
	target := run.Func(func(_ context.Context, c run.Call) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ran[c.Run.Job]++
		w.late = append(w.late, time.Since(c.Run.Tick))
		begun <- struct{}{}
		return nil
	})
	var served []*scheduler.Job
	for i := range w.n {
		p := job.DefaultPolicy(false)
		p.StartingDeadline = 5 * time.Minute
		served = append(served, &scheduler.Job{Spec: job.Spec{App: "app", Name: fmt.Sprintf("j%05d", i), Schedules: []string{expr}, Timezone: "UTC",
			Policy: p}, Target: target,
			Output: func(run.Record) io.WriteCloser { return nothing{} }})
	}
	server := scheduler.NewServer(w.backend, "app")
	if err := server.Load(t.Context(), served); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(at); left < time.Second {
		t.Logf("the jobs were registered %s before they were due", left)
		return false
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, time.Minute) }()
	time.Sleep(time.Until(at))
	w.tally.begin()
	enough := time.After(6 * time.Minute)
	for range w.n {
		select {
		case <-begun:
		case <-enough:
			t.Errorf("%d of %d jobs have run", len(w.late), w.n)
			stop()
			<-done
			return true
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Logf("all over %s after the tick", time.Since(at).Round(10*time.Millisecond))
	return true
}

type nothing struct{}

func (nothing) Write(b []byte) (int, error) { return len(b), nil }
func (nothing) Close() error                { return nil }

func (w *world) verify(at time.Time) {
	t := w.t
	outcomes, reasons := map[run.Outcome]int{}, map[string]int{}
	rows, err := w.near.History.Ticks(t.Context(), history.Query{From: at, To: at.Add(time.Second), Limit: w.n + 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		outcomes[r.Outcome]++
		reasons[r.Reason]++
	}
	if outcomes[run.Succeeded] != w.n {
		t.Errorf("outcomes %v, want %d succeeded; reasons %v", outcomes, w.n, reasons)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.ran {
		if n > 1 {
			t.Errorf("%s ran %d times", name, n)
		}
	}
	if len(w.late) > 0 {
		slices.Sort(w.late)
		t.Logf("started after the tick: median %s, last %s", w.late[len(w.late)/2].Round(time.Millisecond), w.late[len(w.late)-1].Round(time.Millisecond))
	}
	t.Logf("%d requests for %d jobs: %v", w.tally.all(), w.n, &w.tally)
}
