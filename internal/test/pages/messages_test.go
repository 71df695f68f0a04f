package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every message that the page of troubleshooting lists is one that dibs says.
func TestMessagesOfThePageAreSaid(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	b, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := texts(t, root)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]* \\|")
	listed := row.FindAllStringSubmatch(string(b), -1)
	if len(listed) == 0 {
		t.Fatal("the page lists no message")
	}
	for _, m := range listed {
		if !strings.Contains(said, plain(m[1])) {
			t.Errorf("nothing in the sources says %q", m[1])
		}
	}
	if made := "the lease went for a walk"; strings.Contains(said, made) {
		t.Errorf("the sources say even %q", made)
	}
}

// verb is where a message has a value.
var verb = regexp.MustCompile(`%(\[\d+\])?[a-zA-Z]`)

func plain(message string) string { return verb.ReplaceAllString(message, "%s") }

// texts are the strings of the sources outside tests, each sum of them in one piece.
func texts(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "test" || d.Name() == "bench"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := literal(e)
			if ok {
				all.WriteString(plain(text) + "\n")
			}
			return !ok
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// literal is the text of a string, or of a sum of strings.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		if !ok || e.Op != token.ADD {
			return "", false
		}
		b, ok := literal(e.Y)
		return a + b, ok
	}
	return "", false
}
