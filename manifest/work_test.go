package manifest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testsize"
)

// hostile are documents that cost some parser more than they should, each of about n bytes.
func hostile(n int) map[string]string {
	all := map[string]string{}
	for _, unit := range []string{
		"%", "%\n", "%TAG !a! b\n", "[", "{", "[]", "{}", "- ", "- a\n", "- - a\n", "a,", "a: b,", "[],", "{},", "? ", "? a\n", ": ", "&a ", "*a ", "! ", "!!str ", "a ", "a", "  c\n",
		"\n", "\r", "\t", " ", "# a\n", "#\n", "- a # x\n", "a, # x\n", "\"", "'", "''", "\\n", "|", ">", "- |\n", "---\n", "...\n", "--- a\n", "@", "`", "\u2028", "\u0085", "\ufeff", "<<: a\n", "{a: b}\n"} {
		many := strings.Repeat(unit, n/len(unit))
		all[unit] = many
		all["["+unit] = "[" + many + "]"
		all["key "+unit] = "a: " + many
	}
	counted := func(line string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, line, i)
		}
		return b.String()
	}
	all["keys"] = "version: 1\napp: a\njobs: []\n" + counted("k%d: v\n")
	all["flow keys"] = "{" + counted("k%d: v, ") + "}"
	all["headers"] = "version: 1\napp: a\njobs:\n- name: a\n  schedule: '@daily'\n  request:\n    url: https://h/\n    headers:\n" + counted("      K%d: v\n")
	all["anchors"] = counted("- &a%d x\n")
	all["aliases"] = "- &a x\n" + counted("- *a # %d\n")
	all["args"] = "version: 1\napp: a\ndefaults: &a [" + strings.Repeat("1,", min(n/4, 100_000)) + "]\njobs:\n" +
		counted("- {name: a%d, schedule: '@daily', task: {kind: k, args: [*a, *a, *a, *a]}}\n")
	all["steps"] = stairs(n)
	all["text"] = "a: \"" + strings.Repeat("x\\n ", n/4) + "\""
	all["block"] = "a: |\n" + strings.Repeat("  x\n", n/4)
	return all
}

// stairs nests as deep as its size allows, a line for each.
func stairs(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// allocated is how many bytes reading a document takes in all: a measure of its work that no other process
// disturbs.
func allocated(text, name string) uint64 {
	data := []byte(text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = load(data, name)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A document costs a bounded amount of work to read, whatever is in it. A parser whose work grows with the square took
// 3,400 MB for 256 KiB of keys.
// Holds: promise 25.
func TestYAMLWork(t *testing.T) {
	testsize.Counts(t)
	most := mostYAML()
	for what, text := range hostile(maxYAML - 1000) {
		got := allocated(text, "m.yaml")
		if got > most {
			t.Errorf("%d bytes of %q: %d MB, want at most %d", len(text), what, got>>20, most>>20)
		}
	}
}

// mostYAML is what reading a document may allocate.
func mostYAML() uint64 {
	if racing() {
		return 20 * 200 << 20 // the detector allocates for itself; what grows with the square is beyond that too
	}
	return 200 << 20
}

// racing says whether this is built with the race detector.
func racing() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestLargerYAMLIsNotParsed: the size is looked at before the parser is.
func TestLargerYAMLIsNotParsed(t *testing.T) {
	for _, unit := range []string{"%", "k: v\n", "[", "a", "# a\n"} {
		text := strings.Repeat(unit, MaxSize/len(unit))
		if got := allocated(text, "m.yaml"); got > 64<<10 {
			t.Errorf("%d bytes of %q: %d KB", len(text), unit, got>>10)
		}
	}
}

// TestJSONWork is TestYAMLWork for JSON.
func TestJSONWork(t *testing.T) {
	testsize.Counts(t)
	const most = 400 << 20
	size := MaxSize - 1000
	object := func(entry string) string { return "{" + entry + strings.Repeat(","+entry, size/(len(entry)+1)) + "}" }
	var keys strings.Builder
	for i := 0; keys.Len() < size; i++ {
		fmt.Fprintf(&keys, `,"k%d":1`, i)
	}
	for what, text := range map[string]string{
		"keys": `{"a":1` + keys.String() + "}", "same": object(`"a":1`), "empty": object(`"":{}`), "list": "[1" + strings.Repeat(",1", size/2) + "]", "lists": "[[]" + strings.Repeat(",[]", size/3) + "]",
		"deep": strings.Repeat("[", size), "deep and right": strings.Repeat("[", size/2) + strings.Repeat("]", size/2), "lines": strings.Repeat("\n", size), "escapes": `{"a":"` + strings.Repeat(`\u0041`, size/6) + `"}`,
		"halves": `{"a":"` + strings.Repeat(`\ud800`, size/6) + `"}`, "jobs": `{"version":1,"app":"a","jobs":[{}` + strings.Repeat(",{}", size/3) + "]}",
	} {
		if got := allocated(text, "m.json"); got > most {
			t.Errorf("%d bytes of %q: %d MB, want at most %d", len(text), what, got>>20, most>>20)
		}
	}
}

// TestYAMLRefused: what readers of YAML take differently is refused, with its place.
func TestYAMLRefused(t *testing.T) {
	for text, want := range map[string]string{
		"%YAML 1.2\n---\nversion: 1\n":    "1:1: a line that begins with % is a directive",
		"version: 1\n%x\n":                "2:1: a line that begins with % is a directive",
		"version: 1\napp: \"a\u2028b\"\n": "2:8: the character U+2028",
		"version: 1\napp: a\u0085b\n":     "2:7: the character U+0085",
		"version: 1\napp: &a [*a]\n":      "2:10: the alias *a contains itself",
		"version: 1\napp: *b\n":           "2:6: there is no anchor &b before this alias",
		"version: 1\n---\nversion: 1\n":   "2:1: a second document",
		"# nothing\n":                     "1:1: the document is empty",
		"---\n":                           "1:1: the document is empty",
		"version: 1\napp: [\n":            "not valid YAML",
		"version: 1\n" + strings.Repeat("# x\n", (maxYAML>>2)+10):        "it is larger than 1048576 bytes, the most for YAML",
		"a: [" + strings.Repeat("a,", maxMarks):                          "1:500002: the document is too large for YAML",
		"a: &a [" + strings.Repeat("1,", 100_000) + "]\nb: [*a, *a, *a]": "with its aliases written out it has more than 250000 values",
	} {
		_, errs := load([]byte(text), "m.yaml")
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%.60q: got %.200v, want one error: %s", text, errs, want)
		}
	}
}
