package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/output"
)

var wide = [][]string{
	{"shop/invoices", "2026-12-01T04:15:00Z", "succeeded", "web-2", "2026-12-01T04:15:01Z", "41.6s", "-"},
	{"shop/reindex", "2026-12-01T04:20:00Z", "failed (run 2 times)", "web-1.example.org", "2026-12-01T04:20:01Z", "1m3s", "exit status 7: " + strings.Repeat("ü", 90)},
	{"shop/hostile", "-", "lost", "\x1b[31mred", "-", "-", "two\nlines"},
}

const wideHeader = "JOB TICK OUTCOME HOST STARTED TOOK REASON"

func shown(t *testing.T, s screen, spare ...string) string {
	t.Helper()
	var b bytes.Buffer
	if err := (env{stdout: output.NewCleaner(&b), out: s}).table(wideHeader, wide, spare...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A table fits a terminal from 60 columns on; what was left out leaves its mark.
func TestATableFitsTheTerminal(t *testing.T) {
	for width := 60; width < 260; width += 7 {
		text := shown(t, screen{tty: true, width: width}, "STARTED", "HOST")
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in %d: %s", n, width, line)
			}
		}
		if !strings.Contains(text, "shop/invoices") || strings.Contains(text, "STARTED") && width < 150 {
			t.Errorf("in %d columns:\n%s", width, text)
		}
		if strings.Contains(text, strings.Repeat("ü", 90)) != !strings.Contains(text, "…") {
			t.Errorf("in %d columns nothing says that it was cut:\n%s", width, text)
		}
	}
}

// Whoever reads a pipe or a file gets all of it, in one line each, and no colours.
func TestATableInAPipeIsWhole(t *testing.T) {
	text := shown(t, screen{}, "STARTED", "HOST")
	if strings.Count(text, "\n") != len(wide)+1 || !strings.Contains(text, strings.Repeat("ü", 90)) || strings.ContainsRune(text, '\x1b') {
		t.Errorf("%q", text)
	}
	for line := range strings.Lines(text) {
		if line != strings.TrimRight(line, " \n")+"\n" {
			t.Errorf("blanks at its end: %q", line)
		}
	}
}

// Outcomes have colours on a terminal; what others wrote still cannot speak to it.
func TestOutcomesHaveColors(t *testing.T) {
	text := shown(t, screen{tty: true, color: true})
	for _, want := range []string{"\x1b[32msucceeded\x1b[0m", "\x1b[31mfailed (run 2 times)\x1b[0m", `\x1b[31mred`, `two\nlines`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if n := strings.Count(text, "\x1b["); n != 2*len(wide) {
		t.Errorf("%d escapes: %q", n, text)
	}
}
