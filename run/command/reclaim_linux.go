package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
)

func identify(h *lease.Holder) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h.BootID = strings.TrimSpace(string(boot))
	ns, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	h.PIDNS = strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]")
	if s, err := proc.Read(h.PID); err == nil {
		h.Start = s.Start
	}
}

// A lease record is a claim by its writer, in a directory that a group shares as in a database. So what it says about
// processes is only looked up, and never obeyed. A control group is killed if it is this user's and is named for the
// run and the lease. A process is killed if its own environment says that it belongs to both. So the writer of one
// key's record can harm the work of that key, and of no other.

// WorkGone reports whether the work of h, a holder of key in this process's boot and pid namespace, is provably gone
// (rule L6): its supervisor has ended, so has its guardian, and so has everything that they started. False means
// that there is no proof, not that the work lives. The work of a holder of an earlier boot is EarlierBoot's to
// judge.
func WorkGone(key lease.Key, h lease.Holder) bool {
	left, gone := inspect(key, h)
	left.group.close()
	return gone
}

// remainder is what an inspection found alive of a holder.
type remainder struct {
	supervisor bool
	guards     []proc.Stat // guardian and warden
	work       []proc.Stat
	group      *group // the run's, nil where it is not known
	populated  bool
}

// inspect looks at what is left of h's work; gone is true only where that is certain.
func inspect(key lease.Key, h lease.Holder) (left remainder, gone bool) {
	if !here(h) || !seesAll() || alive(h) {
		left.supervisor = true
		return left, false
	}
	// The order matters: a guardian starts nothing once its supervisor is dead, so if the
	// supervisor was dead before this list was made, nobody can appear after it.
	all, err := proc.All()
	if err != nil {
		return left, false
	}
	if left.guards = guardsOf(all, h); len(left.guards) > 0 {
		left.supervisor = slices.ContainsFunc(left.guards, func(s proc.Stat) bool {
			return !ours(s, bound(key, h.RunID)) || supervised(s)
		})
		return left, false
	}
	if left.group = groupOf(key, h); left.group != nil {
		if left.populated = left.group.populated(); left.populated && !left.group.own {
			left.work = orphansOf(all, bound(key, h.RunID))
		}
		return left, !left.populated
	}
	certain := true
	work := proc.Below(all, func(s proc.Stat) bool {
		if !s.Alive() || s.Kernel || s.Start < h.Start {
			return false // what is older than the holder cannot descend from it
		}
		a := ofRun(s.PID, h.RunID)
		certain = certain && (a != unknown || h.Cgroup != "" && !promised(h.Cgroup))
		return a == yes
	})
	if len(work) > 0 {
		left.work = orphansOf(all, bound(key, h.RunID))
	}
	return left, certain && len(work) == 0
}

// here reports whether h's numbers mean something in this process. Machines that were cloned while they ran have one
// boot id, and the same numbers of pid namespaces: only the host's name tells them apart.
func here(h lease.Holder) bool {
	s := Self()
	return h.Host == s.Host && h.BootID != "" && h.BootID == s.BootID && h.PIDNS != "" && h.PIDNS == s.PIDNS &&
		h.PID > 0 && h.Start > 0 && h.RunID != ""
}

// seesAll reports whether /proc shows the processes of other users (hidepid may hide them): if not, what is not seen
// may well be there.
func seesAll() bool {
	_, err := proc.Read(1)
	return err == nil
}

// alive reports whether the process h lives, be it stopped.
func alive(h lease.Holder) bool {
	s, err := proc.Read(h.PID)
	if err != nil {
		return !os.IsNotExist(err)
	}
	return s.Start == h.Start && s.Alive()
}

// guardsOf lists the living guardian and warden of h's run.
func guardsOf(all []proc.Stat, h lease.Holder) (found []proc.Stat) {
	for _, s := range all {
		if !s.Alive() || s.Kernel || s.Start < h.Start {
			continue
		}
		if args := proc.Args(s.PID); len(args) > 1 && guardian.IsGuard(args[0]) && args[1] == h.RunID {
			found = append(found, s)
		}
	}
	return found
}

// ours reports whether a process that calls itself a guard of the run was started for this key, by dibs of this
// user. Anybody can start a process of that name. Such a process is left alone: it delays a contender until the
// lease has lapsed, and no longer.
func ours(guard proc.Stat, proof string) bool {
	if ownerOf(guard.PID) != os.Geteuid() {
		return false
	}
	env, err := proc.Environ(guard.PID)
	return err == nil && env.Lists(EnvRunProofs, proof)
}

// supervised reports whether the parent of a guard may be its supervisor: a process that runs the same program, and
// is no guard. A record that calls a living supervisor dead is not believed. This user can read what a supervisor
// runs if it can read what the guard runs; a parent that it cannot read is a reaper.
func supervised(guard proc.Stat) bool {
	if args := proc.Args(guard.Parent); len(args) > 0 && guardian.IsGuard(args[0]) {
		return false // its own warden; or the guardian of a run around this one, which got the orphan
	}
	own, err := os.Stat(fmt.Sprintf("/proc/%d/exe", guard.PID))
	if err != nil {
		return true
	}
	parent, err := os.Stat(fmt.Sprintf("/proc/%d/exe", guard.Parent))
	if errors.Is(err, os.ErrPermission) {
		return false
	}
	return err != nil || os.SameFile(own, parent)
}

// killTime bounds KillOrphaned: a process that SIGKILL does not end by then is stuck in the kernel.
const killTime = 2 * time.Second

// guardTime is what guardian and warden of a dead supervisor have of that to kill all by themselves.
const guardTime = killTime / 4

// KillOrphaned kills work of h that has lost its supervisor. It reports whether the work is gone within 2 s, or
// before ctx ends, which is an error. A guardian that was stopped is continued; if it does not end everything at once
// then, as it does when its supervisor has died, it is killed too. A living supervisor is left alone: false at once.
//
// Only what is certain to be h's under this key is killed, and only if held says that h's hold is still on record:
// what a run left behind on purpose, after releasing its lease, lives on. held is called once, since a dead
// supervisor releases nothing any more.
func KillOrphaned(ctx context.Context, key lease.Key, h lease.Holder, held func() bool) (bool, error) {
	began, asked, unsure := time.Now(), false, 0
	return untilGone(ctx, func() (done, gone bool) {
		done, gone = killOnce(key, h, time.Since(began) > guardTime, &asked, held)
		if done && !gone && asked {
			unsure++
			done = unsure > unsureRounds
		}
		return done, gone
	})
}

// unsureRounds is how often there is looked again where nothing was left to be killed and no proof to be had,
// over some 60 ms in all: a process of anybody's that is just being executed shows no environment for a moment.
const unsureRounds = 6

// untilGone repeats a round, ever less often, until there is nothing more to do, for killTime at most.
func untilGone(ctx context.Context, round func() (done, gone bool)) (bool, error) {
	over := time.After(killTime)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		done, gone := round()
		if done {
			return gone, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over:
			return false, nil
		case <-time.After(wait):
		}
	}
}

// killOnce is one round of KillOrphaned. late says that the guards have had the time to do it by themselves; done
// that there is nothing more to do: the work is gone, or nothing may be killed.
func killOnce(key lease.Key, h lease.Holder, late bool, asked *bool, held func() bool) (done, gone bool) {
	left, gone := inspect(key, h)
	defer left.group.close()
	switch {
	case gone:
		left.group.remove()
		return true, true
	case left.supervisor, !*asked && !held():
		return true, false
	case len(left.guards) > 0:
		left.end(key, h, late)
	case left.group.kill():
	case len(left.work) == 0:
		return true, false // nothing that could be killed, and no proof to be had
	}
	*asked = true
	killAll(left.work)
	return false, false
}

// end has the guards of a dead supervisor do their work, or where they had the time for it, does it in
// their place. They themselves come last: while one of them lives, orphans stay below it.
func (left remainder) end(key lease.Key, h lease.Holder, late bool) {
	if !late {
		for _, g := range left.guards {
			_ = syscall.Kill(g.PID, syscall.SIGCONT)
		}
		return
	}
	g := groupOf(key, h)
	g.kill()
	g.close()
	isGuard := func(s proc.Stat) bool {
		return slices.ContainsFunc(left.guards, func(g proc.Stat) bool { return g.PID == s.PID })
	}
	all, err := proc.All()
	work := slices.DeleteFunc(proc.Below(all, isGuard), isGuard)
	killAll(work)
	if err == nil && len(work) == 0 {
		killAll(left.guards)
	}
}
