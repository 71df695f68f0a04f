package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Promise 28: no command shows the password of its store's address, wherever that is said and whatever is wrong with
// it.
// Holds: promise 28.
func TestNoCommandShowsAPassword(t *testing.T) {
	const password = "hunter2"
	dir := t.TempDir()
	t.Setenv("DIBS_DIR", filepath.Join(dir, "host"))
	manifest := filepath.Join(dir, "jobs.yaml")
	text := "version: 1\napp: app\njobs:\n  - {name: j, schedule: '@every 1h', command: ['true'], policy: {concurrency_scope: global}}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"run", "--key", "k", "--", "true"}, {"serve", manifest}, {"trigger", "app.j", "--manifest", manifest}, {"doctor"}, {"init"},
		{"init", "--print"}, {"history"}, {"explain", "app/j"}, {"lease", "list"}, {"job", "list"}, {"task", "list"}, {"task", "enqueue", "k"}, {"queue", "list"},
		{"work", "q", "--", "true"}, {"run", "--help"}, {"--help"}}
	addresses := []string{"redis://:hunter2#x@127.0.0.1:1/0", "redis://:hunter2@127.0.0.1:1/0", "redis://:hunter2@127.0.0.1:1/x", "redis://127.0.0.1:1?password=hunter2",
		"postgres://app:hunter2/x@127.0.0.1/db", "postgres://app:hunter2@127.0.0.1:1/db", "postgres:app:hunter2@127.0.0.1/db",
		"app:hunter2@tcp(127.0.0.1:1)/db", "mysql://app:hunter2@127.0.0.1:1/db", "user=app password=hunter2 host=127.0.0.1", "redis://:hunter2@127.0.0.1:1\nx"}
	file := filepath.Join(dir, "store")
	said := 0
	for _, address := range addresses {
		for _, way := range []string{"--store", "DIBS_STORE", "DIBS_STORE_FILE"} {
			for _, args := range commands {
				unset(t, "DIBS_STORE")
				t.Setenv("DIBS_STORE_FILE", "/dev/null")
				switch way {
				case "--store":
					if strings.HasSuffix(args[len(args)-1], "--help") {
						continue
					}
					at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
					if at < 0 {
						at = len(args)
					}
					args = slices.Insert(slices.Clone(args), at, "--store", address)
				case "DIBS_STORE":
					t.Setenv("DIBS_STORE", address)
				case "DIBS_STORE_FILE":
					if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					t.Setenv("DIBS_STORE_FILE", file)
				}
				var out bytes.Buffer
				Exec(t.Context(), args, strings.NewReader(""), &out, &out)
				if strings.Contains(out.String(), password) {
					t.Errorf("%s=%q, %q:\n%s", way, address, args, &out)
				}
				if out.Len() > 0 {
					said++
				}
			}
		}
	}
	if want := len(addresses) * 30; said < want {
		t.Errorf("%d commands said something, of at least %d", said, want)
	}
}

// unset has a variable not there until the test is over.
func unset(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "") // which puts it back
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}
