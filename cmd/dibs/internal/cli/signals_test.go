package cli

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignalsEndWhateverWaits: the first and the second signal act, the process ends last after the second, and at
// once after the third; nothing that the acts set off has to return.
// Holds: promise 27.
func TestSignalsEndWhateverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var acts []int
		var died []time.Duration
		begun := time.Now()
		signals := make(chan os.Signal, 3)
		act := func(n int) func(syscall.Signal) {
			return func(syscall.Signal) {
				mu.Lock()
				defer mu.Unlock()
				acts = append(acts, n)
			}
		}
		die := func(syscall.Signal) {
			mu.Lock()
			defer mu.Unlock()
			died = append(died, time.Since(begun))
		}
		go attend(signals, func() time.Duration { return time.Minute }, die, act(1), act(2))
		signals <- syscall.SIGTERM
		time.Sleep(time.Hour)
		signals <- syscall.SIGTERM
		synctest.Wait()
		mu.Lock()
		if len(acts) != 2 || len(died) != 0 {
			t.Errorf("after two: acts %v, died %v", acts, died)
		}
		mu.Unlock()
		time.Sleep(30 * time.Second)
		signals <- syscall.SIGINT
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(died) != 2 || died[0] != time.Hour+30*time.Second || died[1] != time.Hour+time.Minute {
			t.Errorf("died after %v", died)
		}
		close(signals)
	})
}

// TestARelayEndsWhatWaits: before the command runs a second signal ends dibs run; while it runs all are the
// command's, however many; after it has ended, the first ends what is still to be done, the second the process.
func TestARelayEndsWhatWaits(t *testing.T) {
	var died int
	exit = func(int) { died++ }
	defer func() { exit = os.Exit }()
	relay := func() *relay {
		r := &relay{toCommand: make(chan os.Signal, 16)}
		r.waiting, r.stop = context.WithCancelCause(t.Context())
		r.working, r.hurry = context.WithCancelCause(t.Context())
		died = 0
		return r
	}
	r := relay()
	r.take(syscall.SIGUSR1)
	r.take(syscall.SIGTERM)
	if died != 0 || r.waiting.Err() == nil {
		t.Error("the first one ends the wait, and nothing more")
	}
	if r.take(syscall.SIGTERM); died != 1 {
		t.Error("the second one should end the process")
	}

	r = relay()
	r.start()
	for range 100 { // more than anybody reads
		r.take(syscall.SIGTERM)
	}
	if died != 0 || len(r.toCommand) != 16 {
		t.Errorf("died %d times; %d signals for the command", died, len(r.toCommand))
	}
	r.over()
	if r.take(syscall.SIGUSR1); died != 0 || r.working.Err() != nil {
		t.Error("SIGUSR1 ends nothing")
	}
	if r.take(syscall.SIGTERM); died != 0 || r.working.Err() == nil || !r.force.Stop() {
		t.Error("the first one after the command's end should end what is still to be done")
	}
	if r.take(syscall.SIGTERM); died != 1 {
		t.Error("the second one after the command's end should end the process")
	}
}
