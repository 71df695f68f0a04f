package aside

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A duration in a program's own log has its unit, whatever handler the program has: one of JSON writes a number.
func TestDurationsAreLoggedInSeconds(t *testing.T) {
	var b bytes.Buffer
	log := Logger(slog.New(slog.NewJSONHandler(&b, nil)))
	log.With("wait", 2*time.Second).Info("ended", "took", 40*time.Millisecond, "n", 3)
	Flush(log)
	for _, want := range []string{`"wait_seconds":2`, `"took_seconds":0.04`, `"n":3`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing: %s", want, b.String())
		}
	}
}
