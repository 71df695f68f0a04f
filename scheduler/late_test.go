package scheduler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A tick whose time to start was over before it was fired, since the host was suspended just then, is no store's
// fault: it is told as late, and nothing says that the store was silent.
// Holds: T4.
func TestATickThatWasFiredTooLateIsNotUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, log := memory.New(memory.Options{}).Store(), &bytes.Buffer{}
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		self := lease.Holder{Host: "h", PID: 7}
		s := NewServer(&Backend{Name: "sim", Keeper: k, Book: tick.NewBook(st.Ticks, k, self), Ticks: st.Ticks, History: st.History, Self: self,
			Log: slog.New(slog.NewTextHandler(log, nil))}, "app")
		j := &Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{"* * * * *"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
			Target: run.Func(func(context.Context, run.Call) error { t.Error("it ran"); return nil })}
		if err := s.Load(t.Context(), []*Job{j}); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(j.StartBy(at)) + time.Second)
		s.fire(t.Context(), t.Context(), s.jobs[j.Spec.Key()], at)
		synctest.Wait() // the log is written by another goroutine
		if s.Stats.unavailable.Load() != 0 || !strings.Contains(log.String(), "event=tick-late") {
			t.Errorf("%d unavailable; it says %s", s.Stats.unavailable.Load(), log)
		}
	})
}

// stopping is a store whose answer to a claim comes as this server is told to stop.
type stopping struct {
	tick.Store
	stop func()
}

func (s stopping) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	a, err := s.Store.Claim(ctx, reqs)
	s.stop()
	return a, err
}

// A stop between the claim of a tick and its start is neither an error nor a death.
// Holds: T3.
func TestAStopAtATickIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, log := memory.New(memory.Options{}).Store(), &bytes.Buffer{}
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		accept, stop := context.WithCancelCause(t.Context())
		self := lease.Holder{Host: "h", PID: 7}
		ticks := stopping{st.Ticks, func() { stop(errors.New("terminated signal received")) }}
		s := NewServer(&Backend{Name: "sim", Keeper: k, Book: tick.NewBook(ticks, k, self), Ticks: ticks, History: st.History, Self: self,
			Log: slog.New(slog.NewTextHandler(log, nil))}, "app")
		j := &Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{"* * * * *"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
			Target: run.Func(func(context.Context, run.Call) error { t.Error("it ran"); return nil })}
		if err := s.Load(t.Context(), []*Job{j}); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(at))
		s.fire(accept, t.Context(), s.jobs[j.Spec.Key()], at)
		synctest.Wait() // the log is written by another goroutine
		if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "event=tick-left") {
			t.Errorf("it says %s", log)
		}
	})
}
