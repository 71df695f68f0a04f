package dibs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dibstest"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue"
)

// events are what an observer is told.
type events struct {
	mu  sync.Mutex
	all []observe.Event
}

func (s *events) observe(e observe.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
}

// of are those about something.
func (s *events) of(what observe.Of) []observe.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(e observe.Event) bool { return e.Of != what })
}

// An observer is told of functions, tasks and locks: what began and how long it had waited, how it ended and how long
// it took, and what was not run.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := dibstest.New(t, shop())
		var s events
		o := shop()
		o.Observe = s.observe
		c := beside(t, kit.Store, o)
		_ = c.Cron("reports", "* * * * *", func(context.Context, dibs.Tick) error { time.Sleep(5 * time.Second); return errors.New("no paper") })
		mail := dibs.Define[int]("mail")
		_ = dibs.Handle(c, mail, func(_ context.Context, task *dibs.Task, _ int) error {
			time.Sleep(time.Second)
			if task.Attempt == 1 {
				return errors.New("no route")
			}
			return nil
		}, queue.Handler{Backoff: func(int, error) time.Duration { return 2 * time.Second }})
		stop := start(c)
		time.Sleep(time.Second)
		if _, err := c.Enqueue(t.Context(), mail.Spec(1)); err != nil {
			t.Fatal(err)
		}
		locked := make(chan struct{})
		var held sync.WaitGroup
		held.Go(func() {
			_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { close(locked); time.Sleep(3 * time.Second); return nil })
		})
		<-locked
		_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { return nil })
		held.Wait()
		_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { return errors.New("no") })
		func() {
			defer func() { _ = recover() }()
			_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { panic("no") })
		}()
		time.Sleep(50 * time.Second)
		stop()
		synctest.Wait()
		wants := func(of observe.Of, want ...string) {
			t.Helper()
			var got []string
			for _, e := range s.of(of) {
				got = append(got, strings.Join([]string{[]string{"", "began", "ended", "skipped", "lost"}[e.On], e.Name, e.Queue, e.Outcome, e.Took.Round(time.Second).String()}, " "))
			}
			if !slices.Equal(got, want) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		wants(observe.Cron, "began shop/reports   0s", "ended shop/reports  failed 5s")
		wants(observe.Task, "began mail default  0s", "ended mail default retried 1s", "began mail default  0s", "ended mail default succeeded 1s")
		wants(observe.Lock, "began stock   0s", "skipped stock  held 0s", "ended stock  succeeded 3s", "began stock   0s", "ended stock  failed 0s",
			"began stock   0s", "ended stock  failed 0s")
	})
}

// An observer that hangs or panics delays nothing: the log says what it missed.
// Holds: promise 27.
func TestAnObserverDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := dibstest.New(t, shop())
		var log bytes.Buffer
		hangs, first := make(chan struct{}), true
		c := beside(t, kit.Store, dibs.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: func(observe.Event) {
			if first {
				first = false
				panic("no pen")
			}
			<-hangs
		}})
		began := time.Now()
		for range 10_000 {
			if err := c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("10,000 locks took %s", took)
		}
		close(hangs)
		synctest.Wait()
		_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { return nil })
		c.Close()
		synctest.Wait()
		for _, want := range []string{"observer-panicked", "no pen", "observer-behind", "times="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, &log)
			}
		}
	})
}

// Close waits for what the observer has not taken yet, a second at most.
func TestCloseWaitsForTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := dibstest.New(t, shop())
		for pause, all := range map[time.Duration]bool{2 * time.Millisecond: true, time.Minute: false} {
			var s events
			c := beside(t, kit.Store, dibs.Options{Logger: quiet, Observe: func(e observe.Event) { time.Sleep(pause); s.observe(e) }})
			for range 20 {
				_ = c.Do(t.Context(), "stock", func(context.Context, *lease.Lease) error { return nil })
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Do(gone, "stock", func(context.Context, *lease.Lease) error { return nil })
			began := time.Now()
			c.Close()
			if took, told := time.Since(began), s.of(observe.Lock); (len(told) == 41) != all || took > 2*time.Second {
				t.Errorf("with %s for an event, Close took %s, and %d of 41 were told", pause, took, len(told))
			} else if all && (told[40].On != observe.Skipped || told[40].Outcome != "canceled" || told[40].Reason == "") {
				t.Errorf("told %+v of a call that was given up", told[40])
			}
			synctest.Wait()
			time.Sleep(time.Hour)
		}
	})
}
