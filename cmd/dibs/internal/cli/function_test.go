package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/tick"
)

// A job whose work is a Go function shows as such, and neither a manifest of the same app nor a single fire takes it
// from its program.
func TestAGoFunctionIsShownAndLeftToItsProgram(t *testing.T) {
	address := at(t, "file://"+filepath.Join(t.TempDir(), "store"), "reach", "only-host")
	st, err := file.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{App: "shop", Name: "reports", Schedules: []string{"@every 1m"}, Timezone: "UTC", Function: &job.Function{Name: "main.report"}}
	spec.Policy = spec.DefaultPolicy()
	if _, err := st.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: spec.Key(), Definition: spec.Definition(), Since: time.Now().Add(-time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"active, Go function":    {"job", "list"},
		"a Go function: only":    {"job", "show", "shop/reports"},
		`"work": "function"`:     {"job", "show", "shop/reports", "-o", "json"},
		"is a Go function: only": {"explain", "shop/reports"},
	} {
		if out := dibs(t, 0, append(args, "--store", address)...); !strings.Contains(out, want) {
			t.Errorf("dibs %q prints no %q:\n%s", args, want, out)
		}
	}
	manifest := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "version: 1\napp: shop\njobs:\n  - name: reports\n    schedule: '@every 1m'\n    command: ['true']\n    policy: {concurrency_scope: host, starting_deadline_seconds: 300}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dibs(t, 3, "trigger", "shop.reports", "--manifest", manifest, "--store", address)
	dibs(t, 2, "serve", manifest, "--store", address)
	if out := dibs(t, 0, "job", "show", "shop/reports", "--store", address); !strings.Contains(out, "Go function") {
		t.Errorf("the job was taken over:\n%s", out)
	}
	dibs(t, 0, "job", "forget", "shop/reports", "--store", address)
}
