package serve

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue"
)

// By default all of a drain is over within the 30 seconds that Kubernetes gives, whatever does not heed SIGTERM.
func TestWhatHooksGetAtTheEnd(t *testing.T) {
	for _, c := range []struct{ drain, passed, want time.Duration }{
		{12 * time.Second, 0, 10 * time.Second}, // nothing ran
		{12 * time.Second, 8 * time.Second, 8 * time.Second},
		{12 * time.Second, 12*time.Second + 500*time.Millisecond, 3500 * time.Millisecond},
		{12 * time.Second, 22 * time.Second, 2 * time.Second}, // it did not heed SIGTERM
		{time.Second, time.Second, 4 * time.Second},
	} {
		if got := hookDrain(c.drain, c.passed); got != c.want {
			t.Errorf("%s after a drain of %s: %s, want %s", c.passed, c.drain, got, c.want)
		}
	}
}

// What a server, a worker and their work get at the end by default, all of it, leaves room within the 30 s that
// Kubernetes gives.
func TestAStopFitsInWhatKubernetesGives(t *testing.T) {
	const most = 26 * time.Second
	w := WorkerOptions{}.defaults()
	grace, stop := w.Grace, job.DefaultPolicy(true).StopGrace
	for what, d := range map[string]time.Duration{
		"worker, stuck": grace + w.StopGrace + killGrace,
		"worker, hooks": grace + w.StopGrace + hookDrain(grace, grace+w.StopGrace),
		"server":        defaultDrain + stop + hookDrain(defaultDrain, defaultDrain+stop),
		"library":       queue.DefaultGrace + queue.DefaultStopGrace,
	} {
		if d > most {
			t.Errorf("%s: %s, want %s at most", what, d, most)
		}
	}
}
