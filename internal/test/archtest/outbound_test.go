package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clientsOfHTTP are the ways to send a request without internal/outbound. A caller's own *http.Client is allowed.
var clientsOfHTTP = regexp.MustCompile(`[^*]\bhttp\.Client\b|\bhttp\.(Transport|DefaultClient|DefaultTransport|Get|Head|Post|PostForm)\b`)

// Requests are sent by package outbound only, under whose contexts every byte is.
func TestOneClientOfHTTP(t *testing.T) {
	root, outbound := filepath.Join("..", "..", ".."), false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bench" || name == "packaging" || name == "examples" || strings.HasPrefix(name, filepath.Join("internal", "test"))):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(b), "\n") {
			code, _, _ := strings.Cut(line, "//")
			switch {
			case !clientsOfHTTP.MatchString(code):
			case filepath.Dir(name) == filepath.Join("internal", "outbound"):
				outbound = true
			default:
				t.Errorf("%s:%d sends requests by itself: %s", name, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || !outbound {
		t.Fatal("the client is not found either", err)
	}
}
