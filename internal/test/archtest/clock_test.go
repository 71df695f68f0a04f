package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wall are the ways to read the time of day.
var wall = regexp.MustCompile(`\btime\.(Now|Since|Until)\(|\.Wall\(\)`)

// Promises 1 and 8: no client's time of day decides anything about leases and ticks. What is
// measured is measured on the boot clock, what is compared is the store's time.
// Holds: promises 1, 8.
func TestNothingIsDecidedByTheTimeOfDay(t *testing.T) {
	for _, dir := range []string{"lease", "tick", "scheduler", "run", "internal/coalesce"} {
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
				code, _, _ := strings.Cut(line, "//")
				if wall.MatchString(code) {
					t.Errorf("%s:%d reads the time of day: %s", f, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}
