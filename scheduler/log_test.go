package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// Whoever filters a log by level finds runs that failed as errors, and nothing that was meant to be.
func TestWhatFailedIsLoud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		var log safeText
		h.withBackend(func(p *scheduler.Backend) { p.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		bad := newJob(t, "@every 10s", run.Func(func(context.Context, run.Call) error { return errors.New("no") }), nil)
		bad.Spec.Name = "bad"
		late := newJob(t, "@every 10s", run.Func(func(ctx context.Context, _ run.Call) error { <-ctx.Done(); return ctx.Err() }),
			func(p *job.Policy) { p.Timeout = time.Second })
		late.Spec.Name = "late"
		slow := newJob(t, "@every 10s", run.Func(func(context.Context, run.Call) error { time.Sleep(25 * time.Second); return nil }), nil)
		slow.Spec.Name = "slow"
		h.start(t, bad, late, slow)
		time.Sleep(2 * time.Minute)
		h.stop()
		want := map[string]string{"outcome=failed": "ERROR", "outcome=timed_out": "ERROR", "outcome=succeeded": "INFO",
			"event=tick-skipped": "INFO", "event=run-started": "INFO"}
		for mark, level := range want {
			n := 0
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, mark) {
					continue
				}
				if n++; !strings.Contains(line, "level="+level) {
					t.Errorf("want %s: %s", level, line)
				}
			}
			if n == 0 {
				t.Errorf("nothing says %s", mark)
			}
		}
		skips := map[string]int{}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "event=tick-skipped") {
				_, at, _ := strings.Cut(line, " tick=")
				at, _, _ = strings.Cut(at, " ")
				skips[strings.TrimSpace(at)]++
			}
		}
		for at, n := range skips {
			if n != 1 {
				t.Errorf("the skip of the tick %s was logged %d times", at, n)
			}
		}
		if strings.Contains(log.String(), "level=WARN") {
			t.Errorf("something warns where all was meant to be:\n%s", log.String())
		}
	})
}
