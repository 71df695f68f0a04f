package command

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// An answer is what can be said of a process of which perhaps nothing may be read.
type answer int

const (
	no answer = iota
	yes
	unknown
)

// ofRun says whether a process belongs to a run, by the environment it was executed with.
func ofRun(pid int, run string) answer {
	env, err := proc.Environ(pid)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return no
	case err != nil:
		return unknown
	case env.Has(EnvRunID, run), env.Lists(EnvRunParents, run):
		return yes
	}
	return no
}

// killAll kills each process once, by its number.
func killAll(remains []proc.Stat) {
	for _, s := range remains {
		_ = unix.Kill(s.PID, unix.SIGKILL)
	}
}
