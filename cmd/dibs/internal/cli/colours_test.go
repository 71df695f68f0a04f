package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
)

// Whatever a command prints into a pipe has no colours, whatever the terminal of its user can do.
func TestAPipeGetsNoColours(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "1")
	manifest := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "version: 1\napp: shop\njobs:\n  - {name: j, schedule: '@every 1h', command: ['false'], policy: {concurrency_scope: host}}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := false
	for _, command := range []string{"init", "run --key k --scope host -- sh -c 'exit~3'", "trigger shop.j --now --default-scope host --manifest " + manifest,
		"history", "history k", "history k --log", "history shop/j", "explain shop/j", "job list", "job pause shop/j --reason r", "job list",
		"job resume shop/j", "lease list", "task enqueue kind --args {}", "task list", "task show 1", "queue list", "queue pause default --reason r",
		"queue list", "queue show default", "doctor " + manifest, "validate " + manifest, "validate nosuch.yaml", "next @daily -n 3", "next " + manifest,
		"version", "nosuch", "lease nosuch", "--help"} {
		args := strings.Fields(command)
		for i, a := range args {
			args[i] = strings.ReplaceAll(strings.Trim(a, "'"), "~", " ")
		}
		all := [][]string{args}
		if !strings.Contains(command, "--help") && args[0] != "nosuch" {
			all = append(all, []string{args[0], "--help"})
		}
		for _, args := range all {
			var out, errs bytes.Buffer
			cli.Exec(t.Context(), args, strings.NewReader(""), &out, &errs)
			if text := out.String() + errs.String(); strings.Contains(text, "\x1b") || strings.Contains(text, `\u001b`) {
				t.Errorf("dibs %q prints %q", args, text)
			}
			failed = failed || strings.Contains(out.String(), "failed") // which is red on a terminal
		}
	}
	if !failed {
		t.Error("nothing that is coloured on a terminal was printed")
	}
}
