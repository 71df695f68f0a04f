package coalesce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

func calls(qs ...string) (batch []*call[string, string]) {
	for _, q := range qs {
		batch = append(batch, &call[string, string]{q: q, done: make(chan struct{})})
	}
	return batch
}

// Each item of a batch that is answered with an error has an answer of its own.
// Holds: L4.
func TestInHalvesOnlyTheBadItemFails(t *testing.T) {
	broken := errors.New("broken")
	requests := 0
	b := New(10, 1, nil, func(keys []string) ([]string, error) {
		if requests++; slices.Contains(keys, "bad") {
			return nil, broken
		}
		return keys, nil
	}).InHalves(time.Minute, sinceStart)
	batch := calls("a", "b", "bad", "c", "d")
	b.send(batch)
	for _, c := range batch {
		if bad := c.q == "bad"; bad != errors.Is(c.err, broken) || !bad && (c.a != c.q || c.err != nil) {
			t.Errorf("%s: %q, %v", c.q, c.a, c.err)
		}
	}
	if requests > 7 {
		t.Errorf("%d requests", requests)
	}
}

// What nobody answers is not sent again, and nothing is once the time is over: the items share the error then.
func TestWhatIsNotHalved(t *testing.T) {
	for _, c := range []struct {
		err  error
		took time.Duration
	}{
		{context.DeadlineExceeded, 0},
		{fmt.Errorf("away: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), 0},
		{io.EOF, 0},
		{errors.New("locked for too long"), time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			batch := calls("a", "b", "c")
			New(10, 1, nil, func([]string) ([]string, error) {
				requests++
				time.Sleep(c.took)
				return nil, c.err
			}).InHalves(time.Second, sinceStart).send(batch)
			var s *Shared
			err := batch[2].err
			if requests != 1 || !errors.Is(err, c.err) || !errors.As(err, &s) || s.N != 3 || Silent(err) != (c.took == 0) {
				t.Errorf("%v: %d requests, %v", c.err, requests, err)
			}
		})
	}
}

// Whoever is in a part that went well does not wait for the rest to be told apart.
func TestAGoodHalfIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 1, nil, func(keys []string) ([]string, error) {
			time.Sleep(time.Second)
			if slices.Contains(keys, "bad") {
				return nil, errors.New("broken")
			}
			return keys, nil
		}).InHalves(time.Minute, sinceStart)
		batch := calls(append([]string{"bad"}, slices.Repeat([]string{"good"}, 63)...)...)
		begun := time.Now()
		go b.send(batch)
		<-batch[63].done
		if d := time.Since(begun); d != 3*time.Second {
			t.Errorf("half of them were answered after %s", d)
		}
		<-batch[1].done
	})
}

// A server that takes nothing at all is not asked for each by itself.
func TestHalvingEnds(t *testing.T) {
	requests, broken := 0, errors.New("read-only")
	batch := calls(slices.Repeat([]string{"a"}, 500)...)
	New(500, 1, nil, func([]string) ([]string, error) {
		requests++
		return nil, broken
	}).InHalves(time.Minute, sinceStart).send(batch)
	var s *Shared
	for _, c := range batch {
		if !errors.Is(c.err, broken) || errors.As(c.err, &s) {
			t.Fatalf("%v", c.err)
		}
	}
	if requests != mostFailures {
		t.Errorf("%d requests", requests)
	}
}
