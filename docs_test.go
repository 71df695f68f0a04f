package dibs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The programs of the first-steps page are those that are built and counted in bench/firststeps, as they stand,
// and they compile.
func TestTheProgramsOfThePageCompile(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "first-steps", "go.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, fence := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(fence[1], "package main") {
			shown = append(shown, fence[1])
		}
	}
	names := []string{"dibs-lock", "dibs-cron", "dibs-worker", "dibs-all"}
	if len(shown) != len(names) {
		t.Fatalf("the page has %d whole programs, want %d", len(shown), len(names))
	}
	for i, name := range names {
		path := filepath.Join("bench", "firststeps", name, "main.go")
		counted, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if shown[i] != string(counted) {
			t.Errorf("program %d of the page is not %s: change both", i+1, path)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command("go", "vet", path).CombinedOutput(); err != nil {
				t.Errorf("go vet %s: %v\n%s", path, err, out)
			}
		})
	}
}
