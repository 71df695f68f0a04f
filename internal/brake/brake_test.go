package brake

import (
	"testing"
	"testing/synctest"
	"time"
)

// The pause grows from failure to failure up to a bound, and what was taken before the last failure neither lengthens
// nor ends it. After a pause, one thing is tried.
func TestThePauseGrowsAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Brake
		if b.On() || b.Left() != 0 || b.Try() != 0 || b.Try() != 0 || b.Started(b.Taken()) {
			t.Fatal("a new brake is on")
		}
		taken := b.Taken()
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			want *= time.Second
			if pause, first := b.Fault(taken); pause != want || first != (i == 0) {
				t.Errorf("failure %d: %s, first %t; want %s", i+1, pause, first, want)
			}
			if pause, first := b.Fault(taken); pause != want || first {
				t.Errorf("failure %d, of what was taken before it: %s, first %t", i+1, pause, first)
			}
			if b.Started(taken) || !b.On() {
				t.Errorf("failure %d: released by what was taken before it", i+1)
			}
			if b.Left() != want || b.Try() != want {
				t.Errorf("failure %d: %s left, want %s", i+1, b.Left(), want)
			}
			time.Sleep(want)
			if !b.On() || b.Left() != 0 || b.Try() != 0 || b.Try() != want {
				t.Errorf("failure %d: after the pause not one is tried", i+1)
			}
			taken = b.Taken()
		}
		if !b.Started(taken) || b.On() || b.Left() != 0 || b.Started(taken) {
			t.Error("not released once, by what was taken after the last failure")
		}
		if pause, first := b.Fault(taken); pause != Shortest || !first {
			t.Errorf("after the release: %s, first %t", pause, first)
		}
		for _, after := range []time.Duration{0, Shortest, Longest - 1} {
			if time.Sleep(after); !b.Lately() {
				t.Errorf("%s later it was not on lately", after)
			}
		}
		if time.Sleep(time.Nanosecond); b.Lately() || !b.On() {
			t.Errorf("on lately %t, on %t", b.Lately(), b.On())
		}
	})
}
