package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

func (w *world) events(kind string) (some []history.Event) {
	w.t.Helper()
	all, err := w.b.Store().History.Events(w.t.Context(), history.Query{Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

func times(events []history.Event) (sum int) {
	for _, e := range events {
		n, _, _ := e.Times()
		sum += n
	}
	return sum
}

// Promise 24: a key that is skipped every second is few events, which count exactly.
// Holds: promise 24.
func TestAHotKeysSkipsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "@every 1s", w.target(7*time.Minute), nil))
		time.Sleep(20 * time.Minute)
		h.stop()
		skipped := 0
		for _, r := range w.history() {
			if r.Outcome == run.Skipped {
				skipped++
			}
		}
		events := w.events("tick-skipped")
		if n := times(events); skipped < 1000 || n != skipped || len(events) > 40 {
			t.Errorf("%d ticks were skipped; %d events stand for %d", skipped, len(events), n)
		}
		for _, e := range events {
			if n, first, last := e.Times(); n > 1 && (last.Sub(first) > 65*time.Second || e.Tick.IsZero()) {
				t.Errorf("one event spans %s: %+v", last.Sub(first), e)
			}
		}
	})
}

// A run that finds its key held writes it down on its host; that is told once a minute for all.
// Holds: promise 24.
func TestContentionIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		holder, crowd := w.host(1, 0), w.host(2, 0)
		l, err := holder.backend.Keeper.Acquire(t.Context(), lease.Want{Key: "hot", Holder: holder.backend.Self})
		if err != nil {
			t.Fatal(err)
		}
		folding := &foldingSpool{}
		crowd.backend.Spool = folding
		const contenders = 300
		f := scheduler.Fire{Key: "hot", Target: w.target(0), Policy: job.Policy{Concurrency: job.Forbid}}
		for range contenders {
			time.Sleep(time.Second)
			if res := crowd.backend.Fire(t.Context(), f); res.Held == nil {
				t.Fatalf("it was not contended: %+v", res)
			}
		}
		if n := len(w.events("run-contended")); n < 3 || n > 6 {
			t.Errorf("%d events in five minutes", n)
		}
		_ = l.Release(t.Context())
		if err := crowd.backend.DeliverAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		events := w.events("run-contended")
		if n := times(events); n != contenders {
			t.Errorf("%d events stand for %d of %d", len(events), n, contenders)
		}
		if e := events[0]; e.Job != "hot" || e.Host != "host-2" || e.Why() == "" {
			t.Errorf("it is told as %+v", e)
		}
	})
}

// foldingSpool is a spool that makes one of events that are alike, and puts what failed last.
type foldingSpool struct {
	mu, turn sync.Mutex
	items    []scheduler.Item
}

func (s *foldingSpool) Put(i scheduler.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.items); i.Event != nil && n > 0 && s.items[n-1].Event != nil {
		e := history.Fold(*s.items[n-1].Event, *i.Event)
		s.items[n-1].Event = &e
		return nil
	}
	s.items = append(s.items, i)
	return nil
}

func (s *foldingSpool) take() (i scheduler.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, s.items = s.items[0], s.items[1:]
	return i
}

func (s *foldingSpool) Deliver(give func(scheduler.Item) error) error {
	if !s.turn.TryLock() {
		return nil
	}
	defer s.turn.Unlock()
	s.mu.Lock()
	n := len(s.items)
	s.mu.Unlock()
	for range n {
		i := s.take()
		err := give(i)
		if err != nil {
			_ = s.Put(i)
		}
		if err != nil && !errors.Is(err, scheduler.ErrNotYet) {
			return err
		}
	}
	return nil
}

// poisoned refuses the outcomes of one job.
type poisoned struct{ tick.Store }

func (p poisoned) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	if r[0].Run.Job == "poison" {
		return nil, errors.New("this one is not taken")
	}
	return p.Store.Close(ctx, r)
}

// A witness is heard before the settling, however many items that no store takes lie before it.
// Holds: promise 10.
func TestAWitnessBehindUndeliverableItemsIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5 * time.Minute)
		h.stop()
		seen := time.Now().UTC().Truncate(time.Minute).Add(10 * time.Minute)
		time.Sleep(time.Hour)
		h = w.host(2, 0)
		spool := &foldingSpool{}
		for i := range 30 {
			spool.items = append(spool.items, scheduler.Item{Close: &tick.CloseRequest{Run: run.Record{ID: fmt.Sprint(i), Job: "poison"}}})
		}
		spool.items = append(spool.items, scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "app/j", At: seen}})
		h.backend.Spool = spool
		h.backend.Ticks = poisoned{h.backend.Ticks}
		h.backend.Book = tick.NewBook(h.backend.Ticks, h.backend.Keeper, h.backend.Self)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		h.stop()
		outcomes := map[run.Outcome]int{}
		for _, r := range w.history() {
			outcomes[r.Outcome] += max(r.Count, 1)
			if r.At.Equal(seen) && r.Outcome != run.Unavailable {
				t.Errorf("the tick that was witnessed ended as %s", r.Outcome)
			}
		}
		if outcomes[run.Unavailable] != 1 || outcomes[run.Missed] < 50 {
			t.Errorf("outcomes %v: want one unavailable, and the rest of the hour missed", outcomes)
		}
	})
}

// A host that could not reach the store says nothing of a tick that others can still start.
// Holds: promise 10.
func TestAWitnessWaitsUntilNobodyCanStartTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		spool := &foldingSpool{}
		h.backend.Spool = spool
		at := time.Now().UTC().Truncate(time.Second)
		j := newJob(t, "@every 1s", w.target(0), nil)
		if _, err := h.backend.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "app/j", Definition: j.Spec.Definition(), Since: at}}); err != nil {
			t.Fatal(err)
		}
		_ = spool.Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "app/j", At: at, Until: at.Add(5 * time.Minute)}})
		if err := h.backend.Keeper.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := h.backend.DeliverAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rows := w.history(); time.Since(at) < 5*time.Minute && len(rows) > 0 {
				t.Fatalf("after %s it is %+v", time.Since(at), rows)
			}
			time.Sleep(time.Minute)
		}
		if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Unavailable || len(spool.items) > 0 {
			t.Errorf("it ended as %+v", rows)
		}
	})
}

// pickyEvents does not take one kind of event.
type pickyEvents struct{ history.Store }

func (h pickyEvents) Append(ctx context.Context, all []history.Event) error {
	time.Sleep(10 * time.Millisecond)
	if slices.ContainsFunc(all, func(e history.Event) bool { return e.Kind == "untold" }) {
		return errors.New("a value that the store does not take")
	}
	return h.Store.Append(ctx, all)
}

// An event that the store does not take costs no other that travels with it.
// Holds: L4.
func TestOneBadEventLosesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.History = pickyEvents{h.backend.History}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				e := history.Event{Kind: "told", Job: fmt.Sprintf("app/j%d", i), Reason: "a reason"}
				if i == 50 {
					e.Kind = "untold"
				}
				h.backend.Record(t.Context(), e)
			})
		}
		all.Wait()
		if n := len(w.events("told")); n != 99 {
			t.Errorf("%d of 99 events are there", n)
		}
	})
}

// Events are fit for every store, as runs are.
func TestAnEventIsFitForEveryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(1, 0).backend.Record(t.Context(), history.Event{Kind: "told", Reason: "a\xffb\x00c"})
		if got := w.events("told"); len(got) != 1 || got[0].Reason != "a\uFFFDb\uFFFDc" {
			t.Errorf("%+v", got)
		}
	})
}
