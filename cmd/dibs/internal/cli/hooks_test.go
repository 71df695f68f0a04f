package cli

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

// What a worker and its commands get at the end by default, all of it, leaves room within the 30 s that Kubernetes
// gives.
func TestAStopFitsInWhatKubernetesGives(t *testing.T) {
	const most = 26 * time.Second
	flag := func(use, name string) (d time.Duration) {
		t.Helper()
		for _, c := range newRoot(env{}).Commands() {
			if c.Name() == use {
				var err error
				if d, err = c.Flags().GetDuration(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if d == 0 {
			t.Fatalf("dibs %s has no --%s", use, name)
		}
		return d
	}
	grace, stopGrace := flag("work", "grace"), flag("work", "stop-grace")
	for what, d := range map[string]time.Duration{
		"work, stuck": grace + stopGrace + killGrace,
		"work, hooks": grace + stopGrace + hookDrain(grace, grace+stopGrace),
		"serve":       flag("serve", "drain") + job.DefaultPolicy(true).StopGrace + hookDrain(flag("serve", "drain"), flag("serve", "drain")+job.DefaultPolicy(true).StopGrace),
		"library":     queue.DefaultGrace + queue.DefaultStopGrace,
	} {
		if d > most {
			t.Errorf("%s: %s, want %s at most", what, d, most)
		}
	}
}
