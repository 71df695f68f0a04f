package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
)

// underCron says whether a cron daemon started this process: one of its nearest ancestors is one.
// Cron mails what a job prints, so there contention prints nothing.
func underCron() bool {
	_, ok := cronChild()
	return ok
}

// cronChild is the process that a cron daemon forked for this job: the shell, or a child of the
// daemon's own name that started the shell.
func cronChild() (process, bool) {
	p, err := processOf(os.Getpid())
	for range 5 { // this process, the shell, cron's child for the job, cron
		if err != nil {
			break
		}
		parent, parentErr := processOf(p.parent)
		if parentErr == nil && isCron(parent.name) {
			if grand, err := processOf(parent.parent); err == nil && isCron(grand.name) {
				return parent, true
			}
			return p, true
		}
		p, err = parent, parentErr
	}
	return process{}, false
}

func isCron(name string) bool {
	switch name {
	case "cron", "crond", "anacron", "fcron", "bcron-exec", "busybox-crond":
		return true
	}
	return false
}

// process is what /proc says of one.
type process struct {
	name    string
	parent  int
	started time.Duration // on the boot clock
}

// ticksPerSecond is the unit of /proc's times: USER_HZ, the same on every Linux that Go runs on.
const ticksPerSecond = 100

func processOf(pid int) (process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// pid (name) state ppid …; the name may itself contain parentheses.
	open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("/proc/%d/stat: not understood", pid)
	}
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat: not understood", pid)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	started, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return process{string(b[open+1 : end]), parent, time.Duration(started) * time.Second / ticksPerSecond}, nil
}

// firedAgo is how long ago whoever runs this process on a schedule started it: the cron daemon that
// forked it, else the start of the process itself. Between the two lie what a slow boot of a shell
// costs; dibs's own waiting is in both.
func firedAgo() time.Duration {
	p, ok := cronChild()
	if !ok {
		var err error
		if p, err = processOf(os.Getpid()); err != nil {
			return 0
		}
	}
	return max(clock.System.Boot()-p.started, 0)
}
