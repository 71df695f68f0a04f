package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// A Step is a part of a page that is run: a whole block, or one command of a console block.
type Step struct {
	Line   int
	Script string
	Wants  string // what it prints, as the page shows it; empty: the page shows nothing
	Cron   bool
	Until  string // the step goes on in the background until this command succeeds
}

// Steps are what is run of a page's blocks, and how many blocks the page says not to run.
func Steps(blocks []Block) (all []Step, notRun int, err error) {
	for _, b := range blocks {
		file, isFile := strings.CutPrefix(b.Note, "file ")
		until, background := strings.CutPrefix(b.Note, "background until ")
		why, skipped := strings.CutPrefix(b.Note, "not run, ")
		s := Step{Line: b.Line, Script: b.Text}
		if background {
			s.Until = until
		}
		switch {
		case skipped && why != "":
			notRun++
			continue
		case isFile:
			s.Script = fmt.Sprintf("cat > %s <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\n", file, b.Text)
			if b.Kind == "yaml" && strings.HasPrefix(b.Text, "version:") { // a manifest
				s.Script += "dibs validate " + file + "\n"
			}
		case b.Note != "" && !background:
			return nil, 0, fmt.Errorf("line %d: %q says nothing to the test", b.Line, b.Note)
		case b.Kind == "yaml":
			s.Script = fmt.Sprintf("cat > m.yaml <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\ndibs validate m.yaml\n", b.Text)
		case b.Kind == "crontab":
			s.Cron = true
			s.Script = fmt.Sprintf("cat > crontab <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\ncrontab crontab\ncron\n", b.Text)
		case b.Kind == "console":
			all = append(all, commands(b)...)
			continue
		case b.Kind == "go":
			continue // compiled and run apart
		case b.Kind != "sh":
			return nil, 0, fmt.Errorf("line %d: the test does not know how to run a block of %q", b.Line, b.Kind)
		}
		all = append(all, s)
	}
	return all, notRun, nil
}

// commands are those behind "$ " of a console block, each with what it prints.
func commands(b Block) (all []Step) {
	n := b.Line
	for line := range strings.Lines(b.Text) {
		n++
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, Step{Line: n, Script: command})
		} else if len(all) > 0 {
			all[len(all)-1].Wants += line
		}
	}
	return all
}

// Script is a program for bash that runs the steps, each with its output in a file of its own. A step that fails ends
// it. On a host that is not the first one of a fleet, only the steps up to the crontab are run.
func Script(steps []Step, first bool) string {
	var b strings.Builder
	b.WriteString("cd\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n")
	for _, s := range steps {
		out := fmt.Sprintf("/page/out.%d", s.Line)
		end := ""
		if s.Until != "" {
			end = fmt.Sprintf(" &\nuntil %s; do sleep 0.2; done >/dev/null 2>&1\n", s.Until)
		}
		fmt.Fprintf(&b, "echo %d > /page/at\n{\n%s} > %s 2>&1%s\n", s.Line, s.Script, out, end)
		if s.Cron {
			b.WriteString("until [ -e /shared/all-called ]; do sleep 0.2; done\n")
			if !first {
				b.WriteString("until [ -e /shared/done ]; do sleep 0.2; done\nexit 0\n")
			}
		}
	}
	b.WriteString("echo end > /page/at\n")
	return b.String()
}

// shapes are the parts of an output that differ from run to run.
var shapes = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z`), "INSTANT"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b[0-9a-f]{8}-[0-9a-f]{4}\b`), "RUN"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "ID"},
	{regexp.MustCompile(`\b\d{16}\b`), "TOKEN"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`), "DURATION"},
	{regexp.MustCompile(`\bweb-\d\b`), "HOST"},
	{regexp.MustCompile(`\btask \d+\b`), "task N"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// Normal is an output without what differs from run to run.
func Normal(out string) string {
	for _, s := range shapes {
		out = s.what.ReplaceAllString(out, s.name)
	}
	return strings.TrimSpace(out)
}
