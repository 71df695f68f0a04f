package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../../.."

// Each relative link of a page leads to a file that is there, and to a heading of it.
func TestLinks(t *testing.T) {
	links, anchors := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		for _, l := range Links(read(t, path)) {
			links++
			to := path
			if l.Path != "" {
				to = filepath.Join(filepath.Dir(path), l.Path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s:%d: a link to %s, which is not there", path, l.Line, l.Path)
				continue
			}
			if l.Anchor == "" || filepath.Ext(to) != ".md" {
				continue
			}
			anchors++
			if !Anchors(read(t, to))[l.Anchor] {
				t.Errorf("%s:%d: a link to %s#%s, and no heading there has this anchor", path, l.Line, l.Path, l.Anchor)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 60 || anchors < 20 {
		t.Errorf("%d links and %d anchors: want at least 60 and 20", links, anchors)
	}
}

// A link that leads nowhere is found, and what only looks like a link is none.
func TestLinksOfAPage(t *testing.T) {
	page := "# One `two` [three](x.md): 4\n[a](b.md#c) `[d](e)` [f](https://g)\n```\n[h](i)\n# Not a heading\n```\n[j](#k)\n"
	if got := Links(page); len(got) != 3 || got[1] != (Link{2, "b.md", "c"}) || got[2] != (Link{7, "", "k"}) {
		t.Errorf("%+v", got)
	}
	if got := Anchors(page); len(got) != 1 || !got["one-two-three-4"] {
		t.Errorf("%v", got)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}
