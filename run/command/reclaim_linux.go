package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
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

// WorkGone says whether the work of h, a holder in this process's boot and pid namespace, is
// provably gone (rule L6): its supervisor has ended, so has its guardian, and so has everything
// that they started. False means that there is no proof, not that the work lives. The work of a
// holder of an earlier boot is EarlierBoot's to judge.
func WorkGone(h lease.Holder) bool {
	_, gone := inspect(h)
	return gone
}

// remainder is what an inspection found alive of a holder.
type remainder struct {
	supervisor bool
	guards     []proc.Stat // guardian and warden
	work       []proc.Stat
	populated  bool // the run's cgroup is
}

// inspect looks at what is left of h's work; gone is true only where that is certain.
func inspect(h lease.Holder) (left remainder, gone bool) {
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
		left.supervisor = slices.ContainsFunc(left.guards, supervised)
		return left, false
	}
	if known, populated := groupOf(h); known {
		left.populated = populated
		if populated {
			left.work = inGroup(all, h)
		}
		return left, !populated
	}
	certain := true
	left.work = proc.Below(all, func(s proc.Stat) bool {
		if !s.Alive() || s.Kernel || s.Start < h.Start {
			return false // what is older than the holder cannot descend from it
		}
		a := ofRun(s.PID, h.RunID)
		certain = certain && (a != unknown || h.Cgroup != "")
		return a == yes
	})
	return left, certain && len(left.work) == 0
}

// here says whether h's numbers mean something in this process.
func here(h lease.Holder) bool {
	s := Self()
	return h.BootID != "" && h.BootID == s.BootID && h.PIDNS != "" && h.PIDNS == s.PIDNS &&
		h.PID > 0 && h.Start > 0 && h.RunID != ""
}

// seesAll says whether /proc shows the processes of other users (hidepid may hide them): if not,
// what is not seen may well be there.
func seesAll() bool {
	_, err := proc.Read(1)
	return err == nil
}

// alive says whether the process h lives, be it stopped.
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

// supervised says whether the process that a guard has as its parent may be its supervisor: one that
// runs the same program, and is no guard. A record that calls a living supervisor dead is not believed.
// This user can read what a supervisor runs if it can read what the guard runs, so one where it cannot is
// a reaper.
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

// groupOf asks the kernel about the cgroup that h names. It is not known where h has none, and
// where it is absent: it may be so because it was empty and removed, or because this process
// sees another part of the hierarchy; then environments are asked as well. A record comes from
// a shared store, so its path is not believed further than that it has the run's name.
func groupOf(h lease.Holder) (known, populated bool) {
	if h.Cgroup == "" || filepath.Base(h.Cgroup) != cgroup.Name(h.RunID) || filepath.Clean(h.Cgroup) != h.Cgroup {
		return false, false
	}
	populated, exists, err := cgroup.Populated(h.Cgroup)
	return exists && err == nil, populated
}

func inGroup(all []proc.Stat, h lease.Holder) []proc.Stat {
	pids := cgroup.Procs(h.Cgroup)
	return slices.DeleteFunc(all, func(s proc.Stat) bool { return !slices.Contains(pids, s.PID) })
}

// killTime bounds KillOrphaned: a process that SIGKILL does not end by then is stuck in the kernel.
const killTime = 2 * time.Second

// guardTime is what guardian and warden of a dead supervisor have of that to kill all by themselves.
const guardTime = killTime / 4

// KillOrphaned kills work of h that has lost its supervisor, and reports whether the work is gone within
// 2 s, or before ctx ends, which is an error. A guardian that lives is continued, should it be stopped;
// one that does not end everything at once then, as it does when its supervisor has died, is killed too.
// A living supervisor is left alone: false at once. Only what is certain to be h's is killed, and only
// if held says that h's hold is still on record: what a run has left behind on purpose, and released
// its lease, lives on. A dead supervisor releases nothing any more, so it is asked once.
func KillOrphaned(ctx context.Context, h lease.Holder, held func() bool) (bool, error) {
	began, asked := time.Now(), false
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left, gone := inspect(h)
		switch {
		case gone:
			if known, _ := groupOf(h); known {
				_ = cgroup.Remove(h.Cgroup)
			}
			return true, nil
		case left.supervisor, !asked && !held():
			return false, nil
		case len(left.guards) > 0:
			left.end(h, time.Since(began) > guardTime)
		case left.populated:
			_ = cgroup.Kill(h.Cgroup)
		case len(left.work) == 0:
			return false, nil // nothing that could be killed, and no proof to be had
		}
		asked = true
		killAll(left.work)
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(wait):
		}
		if time.Since(began) > killTime {
			return false, nil
		}
	}
}

// end has the guards of a dead supervisor do their work, or where they had the time for it, does it in
// their place. They themselves come last: while one of them lives, orphans stay below it.
func (left remainder) end(h lease.Holder, late bool) {
	if !late {
		for _, g := range left.guards {
			_ = syscall.Kill(g.PID, syscall.SIGCONT)
		}
		return
	}
	if known, populated := groupOf(h); known && populated {
		_ = cgroup.Kill(h.Cgroup)
	}
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
