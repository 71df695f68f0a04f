// Package cgroup gives a run a control group (version 2) of its own, where one can be made: the
// kernel then knows all of its processes, however they forked, and kills them in one write.
package cgroup

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Name is that of a run's control group.
func Name(runID string) string { return "dibs-" + runID }

// Populated says whether a living process is in the group or below it. A group that does not
// exist is not populated, and exists is false.
func Populated(path string) (populated, exists bool, err error) {
	b, err := os.ReadFile(path + "/cgroup.events")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return false, false, nil
	}
	return !bytes.Contains(b, []byte("populated 0")), true, err
}

// Kill kills every process in the group and below it, even if it is frozen.
func Kill(path string) error {
	return write(path, "cgroup.kill", "1")
}

// Move moves a process into the group.
func Move(path string, pid int) error {
	return write(path, "cgroup.procs", strconv.Itoa(pid))
}

func write(path, file, value string) error {
	f, err := os.OpenFile(path+"/"+file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// Procs returns the pids in the group and below it.
func Procs(path string) []int {
	var pids []int
	walk(path, func(dir string) {
		b, _ := os.ReadFile(dir + "/cgroup.procs")
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	})
	return pids
}

// Remove removes the group and those below it, which must be empty. The kernel lets go of the
// last process a moment after it was reaped, so a busy group is tried again for a while.
func Remove(path string) error {
	err := os.Remove(path)
	for wait := 100 * time.Microsecond; err != nil && wait < 200*time.Millisecond; wait *= 2 {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		walk(path, func(dir string) { err = os.Remove(dir) })
		if err != nil {
			time.Sleep(wait)
		}
	}
	return err
}

// walk visits a group after those below it.
func walk(path string, visit func(dir string)) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			walk(path+"/"+e.Name(), visit)
		}
	}
	visit(path)
}
