package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// recorder is a Func that keeps the batches it was given.
type recorder struct {
	mu      sync.Mutex
	batches [][]string
	flying  atomic.Int32
	most    atomic.Int32
}

func (r *recorder) do(keys []string) ([]string, error) {
	r.most.Store(max(r.most.Load(), r.flying.Add(1)))
	defer r.flying.Add(-1)
	r.mu.Lock()
	r.batches = append(r.batches, slices.Clone(keys))
	r.mu.Unlock()
	return keys, nil
}

// A caller gets its own answer; keys are sorted and none is in a batch twice (rule L4).
// Holds: L4.
func TestAnswersAndBatches(t *testing.T) {
	for _, ctx := range map[string]context.Context{"that never ends": context.Background(), "that can end": t.Context()} {
		var r recorder
		const most = 5
		b := New(most, 1, func(k string) string { return k }, r.do)
		var all sync.WaitGroup
		for i := range 32 {
			key := string(rune('a' + i%8))
			all.Go(func() {
				for range 200 {
					if a, err := b.Do(ctx, key); err != nil || a != key {
						t.Errorf("Do(%q) = %q, %v", key, a, err)
					}
				}
			})
		}
		all.Wait()
		items := 0
		for _, batch := range r.batches {
			items += len(batch)
			if len(batch) == 0 || len(batch) > most || !slices.IsSorted(batch) || len(slices.Compact(slices.Clone(batch))) != len(batch) {
				t.Fatalf("batch %q", batch)
			}
		}
		if items != 32*200 || r.most.Load() != 1 {
			t.Errorf("%d items were carried out, %d batches at once; want %d, 1", items, r.most.Load(), 32*200)
		}
	}
}

// Without keys nothing keeps calls apart, and they leave in the order in which they came.
func TestCallsWithoutKeys(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	var r recorder
	b := New(3, 1, nil, func(keys []string) ([]string, error) {
		if keys[0] == "first" {
			close(arrived)
			<-leave
		}
		return r.do(keys)
	})
	var all sync.WaitGroup
	call := func(key string) {
		all.Go(func() {
			if a, err := b.Do(context.Background(), key); err != nil || a != key {
				t.Errorf("Do(%q) = %q, %v", key, a, err)
			}
		})
	}
	call("first")
	<-arrived
	for i, key := range []string{"b", "a", "a", "c", "a"} {
		call(key)
		for waiting := 0; waiting <= i; runtime.Gosched() {
			b.mu.Lock()
			waiting = len(b.queue)
			b.mu.Unlock()
		}
	}
	close(leave)
	all.Wait()
	if want := [][]string{{"first"}, {"b", "a", "a"}, {"c", "a"}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]string]) {
		t.Errorf("the batches are %q, want %q", r.batches, want)
	}
}

// Calls that arrive while a batch is under way leave together, and the one that led is answered
// without waiting for theirs.
func TestLeaderDoesNotWaitForOthers(t *testing.T) {
	arrived, leave, second := make(chan struct{}), make(chan struct{}), make(chan []string)
	hang := make(chan struct{})
	n := 0
	b := New(10, 1, func(k string) string { return k }, func(keys []string) ([]string, error) {
		if n++; n == 1 {
			close(arrived)
			<-leave
		} else {
			second <- keys
			<-hang
		}
		return keys, nil
	})
	led := make(chan error)
	go func() { _, err := b.Do(context.Background(), "a"); led <- err }()
	<-arrived
	var others sync.WaitGroup
	for _, key := range []string{"d", "c", "b"} {
		others.Go(func() { _, _ = b.Do(context.Background(), key) })
	}
	for b.waiting() < 3 {
		runtime.Gosched()
	}
	close(leave)
	if got := <-second; !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("the second batch is %q", got)
	}
	if err := <-led; err != nil {
		t.Error(err)
	}
	close(hang)
	others.Wait()
}

func (b *Batcher[Q, A]) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	b := New(10, 1, func(k string) string { return k }, func([]string) ([]string, error) { return nil, broken })
	if _, err := b.Do(context.Background(), "a"); !errors.Is(err, broken) {
		t.Errorf("an error: %v", err)
	}
	short := New(10, 1, func(k string) string { return k }, func([]string) ([]string, error) { return nil, nil })
	if _, err := short.Do(context.Background(), "a"); err == nil {
		t.Error("too few answers: no error")
	}
	b.Close()
	if _, err := b.Do(context.Background(), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A caller whose context ends is let go while its item is still under way.
func TestContextEnds(t *testing.T) {
	hang := make(chan struct{})
	b := New(10, 1, func(k string) string { return k }, func(keys []string) ([]string, error) { <-hang; return keys, nil })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { _, err := b.Do(ctx, "a"); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(hang)
}
