package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// byPath are the ways to reach a file by its path.
var byPath = regexp.MustCompile(`\b(os\.(Open|OpenFile|OpenInRoot|Create|CreateTemp|ReadFile|WriteFile|Mkdir|MkdirAll|MkdirTemp|Rename|Remove|RemoveAll|Link|Symlink|Chmod|Chown|Lchown|Truncate|ReadDir|DirFS)` +
	`|unix\.(Open|Creat|Rename|Link|Unlink|Mkdir|Chmod|Chown|Truncate|Mkfifo)|filepath\.Glob)\(`)

// Packages that keep files in the host's directory open nothing by its path, because others who share the directory
// may have put anything there under any name: internal/beneath does it for them. Beside this, store/file
// TestNothingThatAMemberPlantsIsFollowed plants each name that dibs makes there.
// Holds: promise 28.
func TestNothingInASharedDirectoryIsOpenedByItsPath(t *testing.T) {
	allowed := map[string]string{ // files of the kernel's
		"store/file/sys.go":    "/proc/",
		"store/file/origin.go": "/proc/",
	}
	for _, dir := range []string{"store/file", "internal/spool", "internal/mirror"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(b), "\n") {
				code, _, _ := strings.Cut(line, "// ")
				ok := allowed[dir+"/"+filepath.Base(f)]
				if byPath.MatchString(code) && (ok == "" || !strings.Contains(code, ok)) {
					t.Errorf("%s/%s:%d opens by path: %s", dir, filepath.Base(f), i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}
