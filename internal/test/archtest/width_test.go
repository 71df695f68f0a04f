package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is the last column of prose: of comments, and of paragraphs of the pages. A tab is four columns.
const widest = 119

// TestProseFitsTheWindow: nobody has to scroll sideways to read. Code, tables and whatever cannot be broken are
// as wide as they are.
func TestProseFitsTheWindow(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d.Name() == ".git" || d.Name() == "migrations" {
				return filepath.SkipDir
			}
			return err
		}
		prose := map[string]func(string) bool{".go": comment("//"), ".lua": comment("--"), ".sql": comment("--"), ".md": paragraph()}[filepath.Ext(path)]
		if prose == nil || d.Name() == "held.md" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(b), "\n") {
			if prose(line) && utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > widest {
				t.Errorf("%s:%d ends behind column %d", path, i+1, widest)
			}
			if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
				t.Errorf("%s:%d is what a merge left", path, i+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// comment says which lines are prose of comments: not examples' outputs, which end with their comment, and
// nothing that is indented.
func comment(mark string) func(string) bool {
	output := false
	return func(line string) bool {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), mark+" ")
		output = ok && (output || strings.HasSuffix(text, "utput:"))
		return ok && !output && !strings.HasPrefix(text, " ") && strings.Contains(text, " ")
	}
}

// paragraph says which lines of a page are prose: not code, tables and headings.
func paragraph() func(string) bool {
	fenced := false
	return func(line string) bool {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fenced = !fenced
		}
		return !fenced && text != "" && !strings.ContainsAny(text[:1], "|#<") && strings.Contains(text, " ")
	}
}
