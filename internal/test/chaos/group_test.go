//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groupEnv is set in the namespaces where the round has a control group of its own.
const groupEnv = "DIBS_CHAOS_GROUP"

// groupPrefix begins the names of the rounds' control groups; the pid of who made one follows. Below it are those of
// the runs, which a host that is killed leaves behind.
const groupPrefix = "dibs-chaos-"

// makeGroup makes a control group (version 2) for all of a test process's rounds, below the one that we are in.
func makeGroup() (string, error) {
	parent, err := ownGroup()
	if err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*")) // the pattern is well formed
	for _, dir := range old {
		if !alive(strings.TrimPrefix(filepath.Base(dir), groupPrefix)) {
			removeGroup(dir)
		}
	}
	dir := filepath.Join(parent, groupPrefix+strconv.Itoa(os.Getpid()))
	return dir, os.Mkdir(dir, 0o755)
}

func alive(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

// ownGroup is the directory of the group that we are in.
func ownGroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for mount := range strings.Lines(string(mounts)) {
		for group := range strings.Lines(string(groups)) {
			f := strings.Fields(mount)
			if path, ok := strings.CutPrefix(strings.TrimSpace(group), "0::"); ok && len(f) > 2 && f[2] == "cgroup2" {
				return filepath.Join(f[1], path), nil
			}
		}
	}
	return "", errors.New("no control groups of version 2 are mounted")
}

// removeGroup removes a group with all below it, once its processes are gone.
func removeGroup(dir string) {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var dirs []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // what goes while we look is gone
		})
		for _, d := range slices.Backward(dirs) { // the deepest first
			err = os.Remove(d)
		}
		if err == nil || os.IsNotExist(err) {
			return
		}
	}
	fmt.Fprintln(os.Stderr, "chaos: a control group is left behind:", err)
}
