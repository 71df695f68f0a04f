// Package testdirs keeps tests away from the directories that dibs has on a real host.
package testdirs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// real are the directories and files of a host's dibs that tests must not make.
func real() []string {
	all := []string{"/var/lib/dibs", "/etc/dibs", "/run/dibs"}
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(home, ".local", "state", "dibs"))
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		all = append(all, filepath.Join(state, "dibs"))
	}
	return all
}

// Run runs a package's tests with a host's directory of their own, for those that name none, and fails if any
// of them has made one of the real directories. What was there before says nothing: a dibs of this machine may
// be at work in it.
func Run(m interface{ Run() int }) (code int) {
	dir, err := os.MkdirTemp("", "dibs-host-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	absent := slices.DeleteFunc(real(), there)
	for name, value := range map[string]string{"DIBS_DIR": filepath.Join(dir, "dibs"), "DIBS_STORE": "", "DIBS_STORE_FILE": ""} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code = m.Run()
	for _, path := range absent {
		if there(path) {
			fmt.Fprintf(os.Stderr, "FAIL: a test has made %s, which is a real host's: give its process a DIBS_DIR\n", path)
			code = max(code, 1)
		}
	}
	return code
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
