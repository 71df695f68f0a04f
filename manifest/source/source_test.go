package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/manifest"
)

func doc(name string) string {
	return `{"version":1,"app":"shop","jobs":[{"name":"` + name + `","schedule":"@daily","request":{"url":"https://h/"}}]}`
}

// write fills a directory; names that end in / are directories.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, name string, o Options) (*manifest.Manifest, error) {
	t.Helper()
	s, err := New(name, o)
	if err != nil {
		return nil, err
	}
	return s.Load(context.Background())
}

func TestFile(t *testing.T) {
	dir := write(t, map[string]string{"jobs.json": doc("a"), "bad.yaml": "version: 2\n"})
	m, err := load(t, filepath.Join(dir, "jobs.json"), Options{})
	if err != nil || len(m.Jobs) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, name := range []string{"bad.yaml", "nosuch.yaml"} {
		path := filepath.Join(dir, name)
		if _, err := load(t, path, Options{}); err == nil || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: the error should name it once: %v", name, err)
		}
	}
	if _, err := New("", Options{}); err == nil {
		t.Error("an empty name is accepted")
	}
}

// TestDirectory: the files in the order of their names, and no others.
func TestDirectory(t *testing.T) {
	dir := write(t, map[string]string{
		"20.json": doc("second"), "10.yaml": doc("first"), "30.YML": doc("third"),
		".hidden.json": "broken", "notes.txt": "broken", "jobs.json~": "broken", "sub/": "", "json": "broken",
	})
	m, err := load(t, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range m.Jobs {
		names = append(names, j.Key())
	}
	if got := strings.Join(names, " "); got != "shop/first shop/second shop/third" {
		t.Error(got)
	}
}

func TestDirectoryRefused(t *testing.T) {
	other := strings.Replace(doc("b"), "shop", "blog", 1)
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"empty":       {nil, []string{"there is no *.json"}},
		"no file":     {map[string]string{"a.json": doc("a"), "b.json/": ""}, []string{"b.json is no file"}},
		"same name":   {map[string]string{"a.json": doc("x"), "b.json": doc("x")}, []string{"b.json:1:36: jobs/0/name: \"x\" is also the name of ", "a.json: jobs/0"}},
		"another app": {map[string]string{"a.json": doc("a"), "b.json": other}, []string{"b.json:1:14: app: \"blog\", but \"shop\" in ", "a.json: want the same app"}},
		"all at once": {map[string]string{"a.json": doc("A"), "b.json": `{"version":2}`}, []string{"a.json:1:36: jobs/0/name", "b.json:1:2: version: 2", "b.json:1:1: app: it is missing", "b.json:1:1: jobs: it is missing"}},
		"too large":   {map[string]string{"a.json": doc("a") + strings.Repeat(" ", 3<<20), "b.json": doc("b") + strings.Repeat(" ", 3<<20)}, []string{"larger than 4194304 bytes"}},
	} {
		dir := write(t, c.files)
		_, err := load(t, dir, Options{})
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error should name %s: %v", name, dir, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\ndoes not say %q", name, err, want)
			}
		}
	}
}

// TestErrorsHaveTheirFile: for programs, which read the path and the file apart.
func TestErrorsHaveTheirFile(t *testing.T) {
	dir := write(t, map[string]string{"a.json": doc("x"), "b.json": doc("x")})
	_, err := load(t, dir, Options{})
	var errs manifest.Errors
	if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Path != "jobs/0/name" || errs[0].File != filepath.Join(dir, "b.json") {
		t.Errorf("%v", err)
	}
}

// TestStandardInput is read once, which the second time says.
func TestStandardInput(t *testing.T) {
	s, err := New("-", Options{Stdin: strings.NewReader(doc("a"))})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Load(context.Background()); err != nil || len(m.Jobs) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if s.Watchable() {
		t.Error("it cannot be watched")
	}
	if _, err := s.Load(context.Background()); err == nil || !strings.Contains(err.Error(), "standard input: it cannot be read again") {
		t.Error(err)
	}
	if _, err := load(t, "-", Options{Stdin: strings.NewReader(strings.Repeat("#\n", manifest.MaxSize))}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}

// TestFingerprint changes with contents, names and errors, and with nothing else.
func TestFingerprint(t *testing.T) {
	dir := write(t, map[string]string{"a.json": "1", "b.json": "2", "c.txt": "3"})
	s, err := New(dir, Options{})
	if err != nil || !s.Watchable() {
		t.Fatal(s.Watchable(), err)
	}
	last := s.Fingerprint()
	for _, step := range []struct {
		name    string
		do      func() error
		changes bool
	}{
		{"nothing", func() error { return nil }, false},
		{"content", func() error { return os.WriteFile(filepath.Join(dir, "a.json"), []byte("11"), 0o644) }, true},
		{"another file", func() error { return os.WriteFile(filepath.Join(dir, "c.txt"), []byte("33"), 0o644) }, false},
		{"a new name", func() error { return os.Rename(filepath.Join(dir, "b.json"), filepath.Join(dir, "d.json")) }, true},
		{"a file less", func() error { return os.Remove(filepath.Join(dir, "d.json")) }, true},
		{"a file more", func() error { return os.WriteFile(filepath.Join(dir, "e.yaml"), nil, 0o644) }, true},
		{"a directory less", func() error { return os.RemoveAll(dir) }, true},
		{"still gone", func() error { return nil }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		now := s.Fingerprint()
		if (now != last) != step.changes {
			t.Errorf("%s: changed %v", step.name, now != last)
		}
		last = now
	}
}
