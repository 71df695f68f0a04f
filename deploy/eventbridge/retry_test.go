package eventbridge

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/deploy"
)

// EventBridge tries to start a task for as long as the tick may start, as far as EventBridge goes, or as FILE says.
func TestRetryFor(t *testing.T) {
	for _, c := range []struct{ said, startWithin, want time.Duration }{
		{0, 0, 5 * time.Minute},
		{0, 90*time.Second + 1, 90 * time.Second},
		{0, time.Second, time.Minute},
		{0, 48 * time.Hour, 24 * time.Hour},
		{2 * time.Hour, time.Second, 2 * time.Hour},
	} {
		if got := (Options{RetryFor: c.said}).retryFor(deploy.Entry{StartWithin: c.startWithin}); got != c.want {
			t.Errorf("retry_for %s, start within %s: %s, want %s", c.said, c.startWithin, got, c.want)
		}
	}
}
