package cli

import (
	"testing"
	"time"
)

// By default all of a drain is over within the 30 seconds that Kubernetes gives.
func TestWhatHooksGetAtTheEnd(t *testing.T) {
	for _, c := range []struct{ drain, passed, want time.Duration }{
		{25 * time.Second, 0, 10 * time.Second}, // nothing ran
		{25 * time.Second, 20 * time.Second, 9 * time.Second},
		{25 * time.Second, 25*time.Second + 500*time.Millisecond, 3500 * time.Millisecond},
		{25 * time.Second, 35 * time.Second, 2 * time.Second}, // it did not heed SIGTERM
		{time.Second, time.Second, 4 * time.Second},
	} {
		if got := hookDrain(c.drain, c.passed); got != c.want {
			t.Errorf("%s after a drain of %s: %s, want %s", c.passed, c.drain, got, c.want)
		}
	}
}
