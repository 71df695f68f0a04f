package postgres

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"SELECT 1;\n": {"SELECT 1"},
		"SELECT 1":    {"SELECT 1"},
		"-- One;\n-- two.\nSELECT 1;\n\n-- b\nSELECT 2;\n": {"SELECT 1", "SELECT 2"},
		"SELECT a,\n  -- why;\n  b -- stays\nFROM c;\n":    {"SELECT a,\n  b -- stays\nFROM c"},
		"SELECT '--', 2 - -1;\n":                           {"SELECT '--', 2 - -1"},
	} {
		if got := split(file); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// The files' statements are sent without comments. Where a comment begins with a number in brackets, it is the one by
// which Go takes the statement below it.
func TestStatementsAndTheirComments(t *testing.T) {
	t.Parallel()
	numbered := 0
	err := fs.WalkDir(sqlFiles, "sql", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := sqlFiles.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql")
		all, text := statements(name), string(b)
		for i, s := range all {
			if s == "" || slices.ContainsFunc(strings.Split(s, "\n"), comment) {
				t.Errorf("%s, statement %d:\n%s", path, i, s)
			}
			// What stands between the statement before and this one.
			first, _, _ := strings.Cut(s, "\n")
			above, rest, found := strings.Cut(text, "\n"+first)
			if !found {
				above, rest, found = strings.Cut(text, first)
			}
			if !found {
				t.Fatalf("%s: there is no %q", path, first)
			}
			text = first + rest
			above = above[strings.LastIndex(above, ";\n")+1:]
			if at := strings.Index(above, "-- ["); at >= 0 {
				numbered++
				if want := fmt.Sprintf("-- [%d] ", i); !strings.HasPrefix(above[at:], want) {
					t.Errorf("%s: the comment of statement %d begins with %.10q", path, i, above[at:])
				}
			}
		}
		return nil
	})
	if err != nil || numbered < 50 {
		t.Error(numbered, err)
	}
}
