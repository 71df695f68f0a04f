// Package firststeps has the three first programs of docs/first-steps/go.md, and the same in redislock, gocron
// and River.
package firststeps

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The programs, each beside its peer.
var programs = []string{"dibs-lock", "redislock", "dibs-cron", "gocron", "dibs-worker", "river"}

// TestTheTableOfThePage counts what each program takes. The page has its lines and modules, and its size to a
// megabyte.
func TestTheTableOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/first-steps/go.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		row := fmt.Sprintf("`%s` | %d | %d | %s |", p, lines(t, p), modules(t, p), size(t, p))
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has not the row\n%s", row)
		}
		if n := lines(t, p); strings.HasPrefix(p, "dibs-") && n > 15 {
			t.Errorf("%s has %d lines of its own, and the page promises 15 at most", p, n)
		}
	}
}

// lines are those of func main and of the types that the library asks for, without what every program has
// whatever it uses: blank lines, comments, closing brackets, and the three lines by which errors are reported.
func lines(t *testing.T, program string) (n int) {
	t.Helper()
	files := token.NewFileSet()
	path := filepath.Join(program, "main.go")
	f, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n")
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name != "main" && fn.Name.Name != "Kind" {
			continue // the work itself
		}
		for i := files.Position(d.Pos()).Line; i <= files.Position(d.End()).Line; i++ {
			if counts(all[i-1]) {
				n++
			}
		}
	}
	return n
}

func counts(line string) bool {
	line = strings.TrimSpace(line)
	switch {
	case line == "", strings.HasPrefix(line, "//"), strings.Trim(line, "{})( ") == "", strings.HasPrefix(line, "log."):
		return false
	case line == "if err != nil {", strings.HasPrefix(line, "func main"):
		return false
	}
	return true
}

// modules are those that are linked, beside the program's own and the standard library.
func modules(t *testing.T, program string) int {
	t.Helper()
	out := run(t, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+program)
	seen := map[string]bool{}
	for _, m := range strings.Fields(out) {
		seen[m] = m != "github.com/dibs-run/dibs/bench"
	}
	n := 0
	for _, linked := range seen {
		if linked {
			n++
		}
	}
	return n
}

// size is that of the stripped binary.
func size(t *testing.T, program string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), program)
	run(t, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, "./"+program)
	info, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d MB", (info.Size()+500_000)/1_000_000)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}
