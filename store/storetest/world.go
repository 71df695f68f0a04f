package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// long is a TTL that no stall of a busy machine outlasts: whatever must be live has it.
const long = 15 * time.Second

// world is one subtest's: a fresh namespace and the processes that share it.
type world struct {
	*testing.T
	ctx    context.Context
	open   Open
	config store.Config
	s      *store.Store         // the first process
	hour   time.Time            // where the ticks of at begin
	beats  map[lease.Ref]func() // end the renewals of workers' leases
}

func newWorld(t *testing.T, open Open, url string) *world {
	t.Helper()
	w := fallow(t, open, url)
	w.s = w.prepare()
	return w
}

// fallow is a world whose namespace nobody has opened yet.
func fallow(t *testing.T, open Open, url string) *world {
	t.Helper()
	room.For(t)
	c, err := store.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = "t" + lease.NewNonce().String()[:8]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return &world{T: t, ctx: ctx, open: open, config: c, beats: map[lease.Ref]func(){}}
}

// process opens the namespace once more, as another process would.
func (w *world) process() *store.Store {
	w.Helper()
	return w.opened(w.config)
}

// prepare opens it as `dibs init` does.
func (w *world) prepare() *store.Store {
	w.Helper()
	c := w.config
	c.Init = true
	return w.opened(c)
}

func (w *world) opened(c store.Config) *store.Store {
	w.Helper()
	s, err := w.open(w.ctx, c)
	if err != nil {
		w.Fatalf("Open(%s, namespace %s): %v", c, c.Namespace, err)
	}
	if s.Close != nil {
		w.Cleanup(func() { _ = s.Close() })
	}
	return s
}

func (w *world) now(s *store.Store) time.Time {
	w.Helper()
	now, err := s.Now(w.ctx)
	w.check("Now", err)
	return now
}

// until waits for an instant of the store's clock to pass.
func (w *world) until(at time.Time) {
	w.Helper()
	for {
		left := at.Sub(w.now(w.s))
		if left < 0 {
			return
		}
		time.Sleep(min(left, 50*time.Millisecond) + time.Millisecond)
	}
}

func (w *world) check(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// equal compares what a store said with what it should have.
func equal[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// sameTime compares instants as stores keep them.
func sameTime(w *world, what string, got, want time.Time) {
	w.Helper()
	if !got.Equal(want) || got.Location() != time.UTC {
		w.Errorf("%s: got %v, want %v", what, got, want.UTC())
	}
}

// between checks an instant that the store set during a call.
func between(w *world, what string, from, got, to time.Time) {
	w.Helper()
	if got.Before(from) || got.After(to) {
		w.Errorf("%s: got %v, want within [%v, %v]", what, got, from, to)
	}
}

// after checks an instant that the store set a duration ahead of its clock, during a call.
func (w *world) after(what string, d time.Duration, from, got, to time.Time) {
	w.Helper()
	between(w, what, from.Add(d), got, to.Add(d))
}

// together calls f(0) … f(n-1) at the same time, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}
