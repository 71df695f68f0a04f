package scheduler

import (
	"testing"
	"testing/synctest"
	"time"
)

// The ticks of other servers wait while this one gets on with its own, and not for one that does not get on.
func TestAShareIsWaitedForWhileItGetsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s share
		if s.wait(t.Context(), time.Second) {
			t.Error("there was nothing to wait for")
		}
		var answered []func()
		for range 10 {
			answered = append(answered, s.begin())
		}
		began := time.Now()
		go func() {
			for _, a := range answered[:9] {
				time.Sleep(700 * time.Millisecond)
				a()
			}
		}()
		if !s.wait(t.Context(), time.Second) {
			t.Error("there was something to wait for")
		}
		if took := time.Since(began); took < 6300*time.Millisecond || took > 9*time.Second {
			t.Errorf("it waited %s: nine are answered within 6.3 s, and the last one never", took)
		}
		began = time.Now()
		go func() {
			time.Sleep(300 * time.Millisecond)
			answered[9]()
		}()
		if s.wait(t.Context(), time.Second); time.Since(began) != 300*time.Millisecond {
			t.Errorf("it waited %s for what took 300ms", time.Since(began))
		}
	})
}
