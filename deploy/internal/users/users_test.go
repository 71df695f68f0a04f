package users

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// directoryOf puts a getent of its own into PATH, and forgets what was answered. It returns how often it was called.
// No test of it is parallel: PATH is the process's.
func directoryOf(t *testing.T, script string) (calls func() int) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	text := "#!/bin/sh\necho \"$3\" >> " + log + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	directory = services{ask: getent}
	t.Cleanup(func() { directory = services{ask: getent} })
	return func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n")
	}
}

// A user is there, is not there, or nobody can tell; a directory service that is down has not said that nobody is
// there.
func TestADirectoryThatFailsIsNotOneWithoutTheUser(t *testing.T) {
	for what, c := range map[string]struct {
		script string
		known  bool
		why    string
	}{
		"there":     {"exit 0", true, ""},
		"not there": {"exit 2", false, ""},
		"it fails":  {"exit 1", false, "exit status 1"},
		"a signal":  {"kill -9 $$", false, "killed"},
	} {
		t.Run(what, func(t *testing.T) {
			directoryOf(t, c.script)
			known, err := Known("ann-of-the-directory")
			if known != c.known || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, %v; want %v, %q", known, err, c.known, c.why)
			}
		})
	}
}

// A host without getent has no directory service, and a number is no name.
func TestAHostWithoutADirectory(t *testing.T) {
	directoryOf(t, "exit 0")
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]bool{"root": true, "ann-of-the-directory": false, "0": false, "": false} {
		if known, err := Known(name); known != want || err != nil {
			t.Errorf("%q: %v, %v", name, known, err)
		}
	}
}

// One question per name, and one for all names while the directory does not answer.
// Holds: promise 26.
func TestTheDirectoryIsAskedOncePerName(t *testing.T) {
	calls := directoryOf(t, "exit 2")
	for range 3 {
		for _, name := range []string{"ann-of-the-directory", "ben-of-the-directory"} {
			if known, err := Known(name); known || err != nil {
				t.Errorf("%s: %v, %v", name, known, err)
			}
		}
	}
	if calls() != 2 {
		t.Errorf("%d calls for two names", calls())
	}

	patience = 200 * time.Millisecond
	t.Cleanup(func() { patience = 5 * time.Second })
	directoryOf(t, "exec /bin/sleep 1000")
	_, first := Known("ann-of-the-directory")
	for _, name := range []string{"ann-of-the-directory", "ben-of-the-directory"} {
		if _, err := Known(name); err == nil || err != first || !strings.Contains(err.Error(), "not answered for 200ms") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
