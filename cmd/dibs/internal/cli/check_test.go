package cli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
)

// outcomeOf runs a command and returns its status, and what it printed.
func outcomeOf(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Exec(t.Context(), args, strings.NewReader(""), &out, &err)
	return status, out.String(), err.String()
}

// plugin is the form of a plugin's line: https://nagios-plugins.org/doc/guidelines.html.
var plugin = regexp.MustCompile(`^DIBS (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+( \|( ('([^'=|]|'')+'|[^' =|]+)=-?[0-9.]+s?;[0-9.]*;[0-9.]*;0)+)?\n$`)

// Whatever is asked, a monitor gets one line of the right form on standard output, and a status from 0 to 3.
func TestCheckIsAPlugin(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	store := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		begins string
	}{
		{[]string{"init"}, 0, ""},
		{[]string{"check"}, 3, "DIBS UNKNOWN - nothing is on record in "},
		{[]string{"run", "--key", "it's a=key", "--", "true"}, 0, ""},
		{[]string{"check"}, 0, "DIBS OK - 0 servers, 0 workers, 0 jobs: nothing is late or failing | critical=0;;;0"},
		{[]string{"check", "it's a=key", "--max-age", "1h"}, 0, "DIBS OK - it's a=key succeeded "},
		{[]string{"check", "it's a=key", "--max-age", "1ns"}, 2, "DIBS CRITICAL - it's a=key succeeded last "},
		{[]string{"check", "it's a key"}, 3, "DIBS UNKNOWN - no job and no key it's a key is known in "},
		{[]string{"check", "--queue", "mail"}, 3, "DIBS UNKNOWN - queue mail has neither tasks nor workers in "},
		{[]string{"task", "enqueue", "send", "--queue", "mail"}, 0, ""},
		{[]string{"check", "--queue", "mail"}, 0, "DIBS OK - tasks of kind send wait in queue mail (1 of them), and no live worker handles them; queue mail: 1 waiting"},
		{[]string{"check", "--queue", "mail", "--depth", "1"}, 0, "DIBS OK - "},
		{[]string{"task", "enqueue", "send", "--queue", "mail"}, 0, ""},
		{[]string{"check", "--queue", "mail", "--depth", "1"}, 2, "DIBS CRITICAL - "},
		{[]string{"run", "--key", "it's a=key", "--", "sh", "-c", "exit 3"}, 3, ""},
		{[]string{"check", "it's a=key"}, 2, "DIBS CRITICAL - it's a=key failed at "},
		{[]string{"check"}, 2, "DIBS CRITICAL - it's a=key failed at "},
		{[]string{"check", "nobody", "it's a=key"}, 2, "DIBS CRITICAL - it's a=key failed at "},
	} {
		args := slices.Insert(slices.Clone(c.args), slices.Index(append(c.args, "--"), "--"), "--store", store)
		got, stdout, stderr := outcomeOf(t, args...)
		if got != c.status || !strings.HasPrefix(stdout, c.begins) {
			t.Errorf("dibs %q: %d, %s%s", c.args, got, stdout, stderr)
		}
		if c.args[0] == "check" && !plugin.MatchString(stdout) {
			t.Errorf("dibs %q: the form of %q", c.args, stdout)
		}
	}
	for _, wrong := range [][]string{{"--max-age", "1h"}, {"--oldest", "1m"}, {"--queue", "mail", "job"}, {"--late", "0s"}, {"--depth", "many"}, {"--timeout", "0s"}, {"--nothing"}, {""}} {
		if got, stdout, stderr := outcomeOf(t, append([]string{"check", "--store", store}, wrong...)...); got != checkUnknown || !plugin.MatchString(stdout) || !strings.Contains(stderr, "see: dibs check --help") {
			t.Errorf("dibs check %q: %d, %s%s", wrong, got, stdout, stderr)
		}
	}
	if got, stdout, _ := outcomeOf(t, "check", "--store", "redis://127.0.0.1:1/0"); got != checkCritical || !plugin.MatchString(stdout) || !strings.Contains(stdout, "redis://127.0.0.1:1/0") {
		t.Errorf("a store that is away: %d, %s", got, stdout)
	}
}

// The status of a store that does not answer is a report, too; that of one that is not prepared is an error.
func TestStatusOfAStoreThatIsAway(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	got, stdout, stderr := outcomeOf(t, "status", "--store", "redis://127.0.0.1:1/0")
	if got != exitUnavailable || !strings.HasPrefix(stdout, "CRITICAL  redis redis://127.0.0.1:1/0: ") || !strings.Contains(stdout, "no server starts anything new") || stderr != "" {
		t.Errorf("%d, %s%s", got, stdout, stderr)
	}
	var v statusView
	got, stdout, _ = outcomeOf(t, "status", "-o", "json", "--store", "redis://127.0.0.1:1/0")
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || got != exitUnavailable || v.State != status.Critical || v.Problems[0].Kind != status.StoreAway || v.Headline == "" {
		t.Errorf("%d, %v, %s", got, err, stdout)
	}
	for _, wrong := range [][]string{{"--watch=10ms"}, {"--watch", "-o", "json"}, {"job"}} {
		if got, stdout, _ := outcomeOf(t, append([]string{"status"}, wrong...)...); got != exitUsage || stdout != "" {
			t.Errorf("dibs status %q: %d, %s", wrong, got, stdout)
		}
	}
}
