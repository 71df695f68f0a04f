package command

import (
	"errors"
	"os"
	"strconv"

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

// ofRun reports whether a process belongs to a run, by the environment it was executed with.
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

// killAll kills each process once. A number that has become another process's is left alone.
func killAll(remains []proc.Stat) {
	for _, s := range remains {
		kill(s)
	}
}

// kill holds on to the process before it looks whether it is still the same.
func kill(s proc.Stat) {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.3, or a sandbox
		if now, err := proc.Read(s.PID); err == nil && now.Start == s.Start {
			_ = unix.Kill(s.PID, unix.SIGKILL)
		}
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, err := proc.Read(s.PID); err == nil && now.Start == s.Start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// orphansOf are the processes that carry the proof that they are of a lease's run, and those that descend
// from one and belong to the same user. What another user has become on the way, be it by a program
// that anybody may start, is not ours to kill on the word of an environment.
func orphansOf(all []proc.Stat, proof string) []proc.Stat {
	owner := map[int]int{} // of what a process with the proof started
	proven := func(s proc.Stat) bool {
		env, err := proc.Environ(s.PID)
		return err == nil && env.Lists(EnvRunProofs, proof)
	}
	var found []proc.Stat
	for _, root := range all {
		if s := root; !s.Alive() || s.Kernel || !proven(s) {
			continue
		}
		uid := ownerOf(root.PID)
		for _, s := range proc.Below(all, func(s proc.Stat) bool { return s.PID == root.PID }) {
			if _, known := owner[s.PID]; !known && (s.PID == root.PID || ownerOf(s.PID) == uid) {
				owner[s.PID] = uid
				found = append(found, s)
			}
		}
	}
	return found
}

// ownerOf is the user of a process; -1 if it has ended.
func ownerOf(pid int) int {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return -1
	}
	return int(st.Uid)
}
