package cli

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// What work gets at its end by default is what package serve makes fit into the time that Kubernetes gives.
func TestTheFlagsOfAStopAreTheDefaults(t *testing.T) {
	for _, c := range []struct {
		use, flag string
		want      time.Duration
	}{{"work", "grace", queue.DefaultGrace}, {"work", "stop-grace", queue.DefaultStopGrace}, {"serve", "drain", queue.DefaultGrace}} {
		found := false
		for _, cmd := range newRoot(env{}).Commands() {
			if cmd.Name() != c.use {
				continue
			}
			found = true
			if d, err := cmd.Flags().GetDuration(c.flag); err != nil || d != c.want {
				t.Errorf("dibs %s --%s: %s, %v, want %s", c.use, c.flag, d, err, c.want)
			}
		}
		if !found {
			t.Errorf("there is no dibs %s", c.use)
		}
	}
}
