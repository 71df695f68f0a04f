package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One user has one place for this host's own locks, whatever the environment is: two runs that find different ones
// overlap.
// Holds: promise 1, H1.
func TestTheEnvironmentMovesNoLocks(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home", "ann")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "passwd")
	text := "root:x:0:0:root:/root:/bin/sh\nann:x:4711:4711::" + home + ":/bin/sh\nnobody:x:4712:4712::/nonexistent:/bin/sh\nrel:x:4713:4713::home:/bin/sh\n"
	if err := os.WriteFile(users, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	before := passwd
	passwd = users
	t.Cleanup(func() { passwd = before })
	for _, env := range []map[string]string{{}, {"HOME": ""}, {"HOME": dir}, {"XDG_STATE_HOME": dir}, {"HOME": dir, "USER": "ann"}} {
		for _, name := range []string{"HOME", "XDG_STATE_HOME", "USER"} {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
		for name, value := range env {
			t.Setenv(name, value)
		}
		t.Setenv("DIBS_DIR", "")
		if got, err := placeOf(4711); err != nil || got != filepath.Join(home, ".local", "state", "dibs") {
			t.Errorf("%v: %s, %v", env, got, err)
		}
		if got, err := placeOf(0); err != nil || got != "/var/lib/dibs" {
			t.Errorf("%v, root: %s, %v", env, got, err)
		}
		for _, uid := range []int{4712, 4713, 3_000_000_000} {
			if got, err := placeOf(uid); err == nil || !strings.Contains(err.Error(), "DIBS_DIR") {
				t.Errorf("%v, user %d without a home: %q, %v, want an error that names DIBS_DIR", env, uid, got, err)
			}
		}
		t.Setenv("DIBS_DIR", dir)
		if got, err := placeOf(4712); err != nil || got != dir {
			t.Errorf("%v, DIBS_DIR: %q, %v", env, got, err)
		}
	}
}
