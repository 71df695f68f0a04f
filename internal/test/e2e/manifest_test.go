//go:build linux

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// manifest writes one of a single job that runs a work, and returns its path. policy is JSON.
func (w *world) manifest(name, schedule, policy, workName string, some work) string {
	w.t.Helper()
	if policy == "" {
		policy = "{}"
	}
	return w.jobs(job{name, schedule, policy, w.work(workName, some)})
}

// job is one of a manifest.
type job struct {
	name, schedule, policy string // policy is JSON
	command                []string
}

func (w *world) jobs(jobs ...job) string {
	w.t.Helper()
	var list []any
	for _, j := range jobs {
		list = append(list, map[string]any{"name": j.name, "schedule": j.schedule, "policy": json.RawMessage(j.policy), "command": j.command})
	}
	b, err := json.MarshalIndent(map[string]any{"version": 1, "app": "app", "jobs": list}, "", "  ")
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write("jobs.json", string(b))
}

// in is the world for a subtest, with more in its environment.
func (w *world) in(t *testing.T, env ...string) *world {
	sub := *w
	sub.t, sub.env = t, append(w.env[:len(w.env):len(w.env)], env...)
	return &sub
}

// notCovered skips a test that cannot run here; with DIBS_TEST_REQUIRE=all it fails it.
func notCovered(t *testing.T, cannot bool, what, why string) {
	t.Helper()
	if cannot {
		uncovered.Require(t, what, why)
	}
}
