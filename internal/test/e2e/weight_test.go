//go:build linux

package e2e

import (
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// A program that can execute templates calls methods by names that the linker does not know, so the linker keeps
// every exported method of every package: 12 MB more, which every start pays for. cobra executes templates only
// where one was set (SetVersionTemplate, SetHelpTemplate, SetUsageTemplate).
func TestTheLinkerLeavesOutWhatNobodyCalls(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(dibsBinary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the binary has no symbols to look at")
	}
	if has("text/template.(*state).evalField") {
		t.Error("dibs can execute templates: find who makes it with go build -ldflags=-dumpdep ./cmd/dibs")
	}
}

// Every dibs initialises every package that it links, also where it needs none of it. None of ours takes more memory
// for that than the texts of its statements need: a compiled expression or a table that is made there goes behind
// internal/lazy or a sync.OnceValue.
func TestPackagesDoLittleAtTheStart(t *testing.T) {
	t.Parallel()
	const most = 20_000 // bytes: the SQL and Lua of one store
	cmd := exec.Command(dibsBinary, "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := regexp.MustCompile(`(?m)^init (github\.com/dibs-run/dibs/\S+) .* (\d+) bytes`)
	found := line.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		t.Fatalf("no package of ours is in the trace:\n%s", out)
	}
	for _, m := range found {
		if bytes, err := strconv.Atoi(string(m[2])); err != nil || bytes > most {
			t.Errorf("%s takes %s bytes at the start: want at most %d", m[1], m[2], most)
		}
	}
}
