package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// underCron says whether a cron daemon started this process: one of its nearest ancestors is one.
// Cron mails what a job prints, so there contention prints nothing.
func underCron() bool {
	pid := os.Getppid()
	for range 4 { // cron, its child for the job, the shell
		name, parent, ok := processOf(pid)
		if !ok {
			return false
		}
		switch name {
		case "cron", "crond", "anacron", "fcron", "bcron-exec", "busybox-crond":
			return true
		}
		pid = parent
	}
	return false
}

// processOf reads a process's name and its parent.
func processOf(pid int) (name string, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// pid (name) state ppid …; the name may itself contain parentheses.
	open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
	fields := strings.Fields(string(b[end+1:]))
	if open < 0 || end < open || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return string(b[open+1 : end]), parent, err == nil
}

// hostZone is the zone of /etc/localtime under its IANA name, so that every server stores the same
// name for the same zone; UTC where nothing is set.
func hostZone() *time.Location {
	path, err := filepath.EvalSymlinks("/etc/localtime")
	if err == nil {
		if _, name, ok := strings.Cut(path, "/zoneinfo/"); ok {
			if loc, err := time.LoadLocation(strings.TrimPrefix(strings.TrimPrefix(name, "posix/"), "right/")); err == nil {
				return loc
			}
		}
	}
	if b, err := os.ReadFile("/etc/timezone"); err == nil {
		if loc, err := time.LoadLocation(strings.TrimSpace(string(b))); err == nil {
			return loc
		}
	}
	return time.UTC
}
