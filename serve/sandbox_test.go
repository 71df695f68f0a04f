package serve_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store/memory"
)

// A job with a sandbox never runs without it: neither under a server, nor by a trigger whose unit has none or another
// one.
func TestAJobNeverRunsWithoutItsSandbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	manifest(t, path, "{name: hello, schedule: '0 * * * *', command: [echo], sandbox: {ProtectSystem: strict}, environments: [units]}",
		"{name: free, schedule: '0 * * * *', command: [echo]}")
	st := memory.New(memory.Options{}).Store()
	now := serve.Fire{Manual: &serve.Manual{By: "Ann"}}
	right := job.Sandbox{"ProtectSystem": {"strict"}}.Hash()
	for name, c := range map[string]struct {
		job, hash string
		in        string
		refused   string
	}{
		"no unit":                    {"shop/hello", "", "units", "would run without it"},
		"no unit, other environment": {"shop/hello", "", "others", "would run without it"},
		"another sandbox":            {"shop/hello", job.Sandbox{"ProtectSystem": {"full"}}.Hash(), "units", "this unit has another one"},
		"its sandbox":                {"shop/hello", right, "units", ""},
		"a job without":              {"shop/free", "", "units", ""},
	} {
		got, err := fired(t, st, path, c.job, serve.Options{Environment: c.in, Sandbox: c.hash}, now)
		switch {
		case c.refused == "" && (err != nil || got.Outcome != run.Succeeded):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.refused != "" && (!errors.Is(err, serve.ErrSandbox) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	unboxed, err := serve.New(serve.Store{Opened: st}, serve.Manifest{From: path}, serve.Options{Environment: "units", Logger: quiet})
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it would serve for ever
		defer cancel()
		err = unboxed.Run(ctx)
	}
	if !errors.Is(err, serve.ErrSandbox) {
		t.Errorf("a server: %v", err)
	}
	s := running(t, serve.Store{Opened: st}, path, serve.Options{Environment: "others"})
	if got := s.state(t); got != serve.Serving {
		t.Errorf("a server that is not to run it is %s", got)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
