package guardian

import (
	"syscall"

	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// A Tree is what descends from the process Root (0: nothing), but for the process Spare (0: none). The
// warden, the guardian and the supervisor each can end a command by it, without the others.
type Tree struct{ Root, Spare int }

// Living lists the processes of the tree that live.
func (t Tree) Living() []proc.Stat {
	living, _ := t.living()
	return living
}

func (t Tree) living() ([]proc.Stat, error) {
	if t.Root <= 1 { // below these is everything
		return nil, nil
	}
	all, err := proc.Descendants(t.Root)
	living := all[:0]
	for _, p := range all {
		if p.PID != t.Spare {
			living = append(living, p)
		}
	}
	return living, err
}

// Kill kills once what it finds, and says how many processes these were; an error is that there may be
// more. Whole groups are killed in one
// piece, so that a process which forks faster than /proc is read does not get away.
func (t Tree) Kill() (found int, err error) {
	left, err := t.living()
	own, groupErr := syscall.Getpgid(t.Root) // the warden's group, in which the guardian is too
	for _, p := range left {
		// A group is within a session, and the sessions below Root are all the run's.
		if groupErr == nil && p.Group != own && p.Group > 1 {
			_ = syscall.Kill(-p.Group, syscall.SIGKILL)
		}
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	return len(left), err
}

// Terminate sends TERM to the whole tree, the group main first; CONT lets what is stopped hear it.
// Sure is as SignalGroup has it.
func (t Tree) Terminate(main int, sure bool) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		t.SignalGroup(main, sure, s)
		for _, p := range t.Living() {
			if p.Group != main {
				_ = syscall.Kill(p.PID, s)
			}
		}
	}
}

// SignalGroup signals the group main. It is sure that the number is still the command's while the
// main process was not reaped; after that only those of the group that are found below Root get it.
func (t Tree) SignalGroup(main int, sure bool, s syscall.Signal) {
	if sure {
		_ = syscall.Kill(-main, s)
		return
	}
	for _, p := range t.Living() {
		if p.Group == main {
			_ = syscall.Kill(p.PID, s)
		}
	}
}
