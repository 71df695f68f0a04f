package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// A run of scope host is shown under its job's name also where the shared store has only a copy of it, and with its
// output on the host that has run it.
func TestARunThatWasCopiedIsShown(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "jobs.yaml")
	text := `{version: 1, app: jt, defaults: {policy: {concurrency_scope: host}}, jobs: [
		{name: a, schedule: "@yearly", command: [echo, hello]}]}`
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DIBS_STORE", testserver.Redis(t)+"?namespace=copied-"+rand.Text())
	t.Setenv("DIBS_DIR", filepath.Join(dir, "here"))
	dibs := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := Exec(t.Context(), args, strings.NewReader(""), &stdout, &stderr); status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, &stderr)
		}
		return stdout.String()
	}
	dibs("init")
	var ran struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal([]byte(dibs("job", "trigger", "jt/a", "--manifest", manifest, "-o", "json")), &ran); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ran.RunID, strings.ToUpper(ran.RunID), ran.RunID[:23]} {
		if got := dibs("history", id, "--log"); got != "hello\n" {
			t.Errorf("%s: its output is %q", id, got)
		}
	}
	for _, at := range []string{"here", "elsewhere"} {
		t.Setenv("DIBS_DIR", filepath.Join(dir, at))
		if got := dibs("history", ran.RunID); !strings.Contains(got, " of jt/a on ") {
			t.Errorf("%s: %q", at, got)
		}
		var shown struct{ Job string }
		if err := json.Unmarshal([]byte(dibs("history", ran.RunID, "-o", "json")), &shown); err != nil || shown.Job != "jt/a" {
			t.Errorf("%s: %+v, %v", at, shown, err)
		}
		if got := dibs("explain", ran.RunID); !strings.HasPrefix(got, "jt/a") {
			t.Errorf("%s: %q", at, got)
		}
	}
}
