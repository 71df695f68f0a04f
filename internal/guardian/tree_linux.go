package guardian

import (
	"slices"
	"syscall"

	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// A Tree is what descends from the process Root (0: nothing), but for the process Spare (0: none). The
// warden, the guardian and the supervisor each can end a command by it, without the others.
type Tree struct{ Root, Spare int }

// Living lists the processes of the tree that live.
func (t Tree) Living() []proc.Stat {
	all, _ := proc.All()
	return t.of(all)
}

// of lists them among all.
func (t Tree) of(all []proc.Stat) (living []proc.Stat) {
	if t.Root <= 1 { // below these is everything
		return nil
	}
	for _, p := range proc.Below(all, func(s proc.Stat) bool { return s.Parent == t.Root }) {
		if p.PID != t.Spare {
			living = append(living, p)
		}
	}
	return living
}

// Kill kills once what it finds, and says how many processes these were; an error is that there may be
// more. Whole groups are killed in one
// piece, so that a process which forks faster than /proc is read does not get away.
func (t Tree) Kill() (found int, err error) {
	all, err := proc.All()
	left := t.of(all)
	others := othersGroups(all, left)
	for _, p := range left {
		if p.Group > 1 && !others[p.Group] {
			_ = syscall.Kill(-p.Group, syscall.SIGKILL)
		}
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	return len(left), err
}

// othersGroups are the groups of living processes that are not left to be killed: those of warden and guardian, and
// where the command has the terminal, any group of the caller's session that a process of it has joined.
func othersGroups(all, left []proc.Stat) map[int]bool {
	ours := map[int]bool{}
	for _, p := range left {
		ours[p.PID] = true
	}
	others := map[int]bool{}
	for _, p := range all {
		if p.Alive() && !ours[p.PID] {
			others[p.Group] = true
		}
	}
	return others
}

// Told are processes that were sent TERM: when each began, by its number.
type Told map[int]uint64

// Terminate sends TERM to those of the tree that are not told yet, and notes them; CONT lets what is stopped hear it.
// The first time, the group main gets it in one piece. Sure is as SignalGroup has it.
func (t Tree) Terminate(main int, sure bool, told Told) {
	first := len(told) == 0
	signal := func(s syscall.Signal, all []proc.Stat) {
		if first {
			t.SignalGroup(main, sure, s)
		}
		for _, p := range all {
			if !first || p.Group != main {
				_ = syscall.Kill(p.PID, s)
			}
		}
	}
	known := func(p proc.Stat) bool { return told[p.PID] == p.Start }
	fresh := slices.DeleteFunc(t.Living(), known)
	signal(syscall.SIGTERM, fresh)
	for _, p := range fresh {
		told[p.PID] = p.Start
	}
	signal(syscall.SIGCONT, fresh)
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
