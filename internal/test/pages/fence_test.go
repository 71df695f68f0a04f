package pages

import (
	"strings"
	"testing"
)

// No block of a page escapes: one that the tests cannot run needs a comment with the reason, which they count.
func TestBlocks(t *testing.T) {
	page := "a\n<!-- test: file x.yaml -->\n```yaml\nb: c\n```\n\n```console\n$ one\nits output\n$ two\n```\n<!-- test: not run, it reboots -->\n```\nreboot\n```\n"
	blocks, err := Blocks(page)
	if err != nil || len(blocks) != 3 || blocks[0].Note != "file x.yaml" || blocks[2].Text != "reboot\n" || blocks[1].Line != 7 {
		t.Fatalf("%+v, %v", blocks, err)
	}
	steps, notRun, err := Steps(blocks)
	if err != nil || notRun != 1 || len(steps) != 3 || steps[0].Until != "" || steps[1].Wants != "its output\n" || steps[2].Script != "two\n" {
		t.Errorf("%+v, %d, %v", steps, notRun, err)
	}
	for page, says := range map[string]string{
		"```\nreboot\n```\n":                                   "does not know how to run",
		"<!-- test: not run, -->\n```\nreboot\n```\n":          "says nothing",
		"<!-- test: whatever -->\n```sh\ntrue\n```\n":          "says nothing",
		"```sh\ntrue\n":                                        "ends within a block",
		"<!-- test: not run, why -->\n\n```sh\ntrue\n```\n":    "no block follows",
		"<!-- test: not run, it is the page's last line -->\n": "ends within a block",
	} {
		blocks, err := Blocks(page)
		if err == nil {
			_, _, err = Steps(blocks)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", page, err, says)
		}
	}
}

// What differs from run to run is no difference; all else is.
func TestNormal(t *testing.T) {
	const page = "JOB  TICK                  HOST   TOOK   RUN\nx    2026-12-01T04:15:00Z  web-2  41.6s  01a1fc54-e741\n"
	if got := Normal("JOB  TICK HOST   TOOK     RUN\nx    2031-01-01T00:00:00Z  web-1  1m3.5s  91a1fc54-0741"); got != Normal(page) {
		t.Errorf("%s\nis not\n%s", got, Normal(page))
	}
	if Normal(page) == Normal(strings.ReplaceAll(page, "x ", "y ")) {
		t.Error("another job is the same")
	}
}
