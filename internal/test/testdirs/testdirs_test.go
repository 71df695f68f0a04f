package testdirs

import (
	"os"
	"path/filepath"
	"testing"
)

type tests func() int

func (f tests) Run() int { return f() }

// Tests that make a real directory fail, whatever they say themselves; those that keep to theirs do not.
func TestARealDirectoryIsNoticed(t *testing.T) {
	t.Setenv("DIBS_DIR", "")
	t.Setenv("DIBS_STORE", "redis://somewhere")
	t.Setenv("DIBS_STORE_FILE", "somewhere")
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	makes := func(path string) tests {
		return func() int {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return 0
		}
	}
	if code := Run(tests(func() int {
		if os.Getenv("DIBS_STORE") != "" {
			t.Error("the tests' own environment names a store")
		}
		return makes(os.Getenv("DIBS_DIR"))()
	})); code != 0 {
		t.Errorf("tests that keep to their own directory: %d", code)
	}
	if code := Run(makes(filepath.Join(state, "dibs"))); code == 0 {
		t.Error("tests that make a real directory pass")
	}
	if code := Run(makes(filepath.Join(state, "dibs"))); code != 0 {
		t.Error("what was there before is held against them")
	}
}
