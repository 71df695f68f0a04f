package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The help of dibs names every command once, and fits a terminal of 80 columns and 45 lines.
func TestTheOverviewFitsAScreen(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := Exec(t.Context(), []string{"help"}, strings.NewReader(""), &stdout, &stderr); status != 0 {
		t.Fatalf("%d, %s", status, &stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	if len(lines) > 45 {
		t.Errorf("it has %d lines", len(lines))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 80 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	for _, cmd := range newRoot(env{}).Commands() {
		named := func(l string) bool { return strings.HasPrefix(l, "  "+cmd.Name()+" ") }
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !named(l) })); cmd.IsAvailableCommand() && n != 1 {
			t.Errorf("it names %s %d times", cmd.Name(), n)
		}
	}
}

func TestNearestWord(t *testing.T) {
	policies := []string{"forbid", "allow", "replace", "wait"}
	for got, want := range map[string]string{"forbd": "forbid", "Replace": "replace", "alow": "allow", "repl": "replace", "wiat": "wait",
		"sometimes": "", "": "", "x": "", "kill": ""} {
		if like := nearest(got, policies); like != want {
			t.Errorf("%q is like %q, want %q", got, like, want)
		}
	}
	for got, want := range map[string]string{"fsh": "fish", "zh": "zsh", "bsh": "bash", "fissh": "fish"} {
		if like := nearest(got, []string{"bash", "zsh", "fish", "powershell"}); like != want {
			t.Errorf("%q is like %q, want %q", got, like, want)
		}
	}
}
