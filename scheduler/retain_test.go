package scheduler_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// keeping keeps, as the output of a run, that it ran.
type keeping struct {
	backend *scheduler.Backend
	run     run.Record
}

func (k keeping) Write(b []byte) (int, error) { return len(b), nil }
func (k keeping) Close() error {
	return k.backend.KeepOutput(context.Background(), k.run, []byte("out"))
}

// outputs are how many of a job's runs have kept what they printed, and of how many the newest have without a gap.
func (w *world) outputs(job string) (kept, newest int) {
	w.t.Helper()
	h := w.b.Store().History
	runs, err := h.Runs(w.t.Context(), history.Query{Job: job, Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range runs {
		b, err := h.ReadOutput(w.t.Context(), r.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		if b != nil {
			if kept++; kept == i+1 {
				newest = kept
			}
		}
	}
	return kept, newest
}

// A job's kept output is bounded, however often it runs: the newest 1,000 outputs are kept.
// Holds: T16.
func TestAServerKeepsTheNewestOutputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		j := newJob(t, "@every 10s", w.target(time.Second), nil)
		j.Output = func(r run.Record) io.WriteCloser { return keeping{h.backend, r} }
		h.start(t, j)
		time.Sleep(4 * time.Hour)
		h.stop()
		if kept, newest := w.outputs("app/j"); kept < 1000 || kept > 1060 || newest != kept {
			t.Errorf("%d outputs are kept, %d of them the newest; want 1,000 and those of ten minutes", kept, newest)
		}
		if n := len(w.ran()); n < 1439 {
			t.Errorf("%d runs", n)
		}
	})
}

// One that ends after its one run goes as far as it may, and one that lives goes on where it stopped.
// Holds: T16.
func TestRetainGoesOnWhereItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		const n = 1000 + 7*history.Step + 5
		for i := range n {
			at := time.Now().Add(-time.Duration(i) * time.Second)
			r := run.Record{ID: run.NewID(), Job: "app/j", Outcome: run.Succeeded, Started: at, Ended: at}
			if err := h.backend.History.AppendRuns(t.Context(), []run.Record{r}); err != nil {
				t.Fatal(err)
			}
			if err := h.backend.KeepOutput(t.Context(), r, []byte("out")); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int{n - 3*history.Step, n - 6*history.Step, 1000, 1000} {
			if err := h.backend.Retain(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			if kept, _ := w.outputs("app/j"); kept != want {
				t.Errorf("%d outputs are kept, want %d", kept, want)
			}
		}
	})
}

// Records older than 90 days go within ten minutes of a server's start, in steps.
// Holds: T16.
func TestAServerForgetsWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		const day = 24 * time.Hour
		old, young := 0, 0
		for i := range 4 * history.Step {
			at := time.Now().Add(-91*day - time.Duration(i)*time.Second)
			if i%4 == 0 {
				at = at.Add(2 * day)
				young++
			} else {
				old++
			}
			r := run.Record{ID: run.NewID(), Job: "app/other", Outcome: run.Succeeded, Started: at, Ended: at}
			if err := h.backend.History.AppendRuns(t.Context(), []run.Record{r}); err != nil {
				t.Fatal(err)
			}
		}
		h.start(t, newJob(t, "0 0 1 1 *", w.target(time.Second), nil))
		time.Sleep(11 * time.Minute)
		h.stop()
		runs, err := h.backend.History.Runs(t.Context(), history.Query{Job: "app/other", Limit: 10_000})
		if err != nil || len(runs) != young {
			t.Errorf("%d runs are left (%v), want %d: %d were old", len(runs), err, young, old)
		}
	})
}

// stuckHistory answers no request to prune.
type stuckHistory struct {
	history.Store
	asked atomic.Int32
}

func (s *stuckHistory) Prune(ctx context.Context, _ time.Time) (int, bool, error) {
	s.asked.Add(1)
	<-ctx.Done()
	return 0, false, lease.ErrUnavailable
}

// safeText is written while it is read.
type safeText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *safeText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Nothing waits for what is forgotten, and a store that cannot is one line in the log.
// Holds: T16.
func TestNothingWaitsForPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		stuck := &stuckHistory{Store: h.backend.History}
		var log safeText
		p := h.backend
		h.Server = scheduler.NewServer(&scheduler.Backend{Name: p.Name, Keeper: p.Keeper, Book: p.Book, Ticks: p.Ticks, History: stuck, Self: p.Self,
			Spool: p.Spool, TimeOfDay: p.TimeOfDay, Log: slog.New(slog.NewTextHandler(&log, nil))}, "app")
		h.start(t, newJob(t, "* * * * *", w.target(50*time.Second), nil))
		time.Sleep(time.Hour)
		h.stop()
		if n := len(w.ran()); n < 59 {
			t.Errorf("%d runs in an hour", n)
		}
		if n := stuck.asked.Load(); n < 5 {
			t.Errorf("it was asked %d times", n)
		}
		if n := strings.Count(log.String(), "event=not-pruned"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, log.String())
		}
	})
}
