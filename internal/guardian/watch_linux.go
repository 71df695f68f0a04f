package guardian

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// watch listens to the supervisor and keeps the deadline, until the process ends.
func (g *guard) watch() {
	fds := []pollFd{{fd: Socket, events: pollIn}, {fd: int32(g.timer), events: pollIn}}
	for {
		if err := errors.Join(g.setTimer(), poll(fds, g.killPause())); err != nil {
			g.doom()
		}
		if fds[0].revents != 0 {
			m, err := receive()
			switch {
			case err == nil:
				g.obey(m)
			case !errors.Is(err, syscall.EAGAIN): // the supervisor is dead
				fds[0].fd = -1
				g.doom()
				g.free()
			}
		}
		g.keepDeadline(bootTime())
		g.killRound()
	}
}

// setTimer wakes watch at the next instant at which something is due.
func (g *guard) setTimer() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return setTimer(g.timer, earliest(earliest(g.term, g.kill), g.stop))
}

// earliest is the lesser of two instants of which zero is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

func (g *guard) obey(m Message) {
	switch m.Kind {
	case Extend:
		g.mu.Lock()
		g.extend(m.Term, m.Kill)
		g.mu.Unlock()
	case Signal:
		g.signalGroup(syscall.Signal(m.Value))
	case Stop:
		g.mu.Lock()
		g.stop = earliest(g.stop, m.Kill)
		g.mu.Unlock()
		g.terminate()
	case KillAll:
		g.doom()
	case Release:
		g.free()
	}
}

// extend moves the deadline. Once it has told the command to terminate, a late renewal does not
// buy it more time: its work is lost (rule L2).
func (g *guard) extend(term, kill time.Duration) {
	switch {
	case g.termed && g.kill == 0: // passed as well
	case g.termed:
		g.kill = earliest(g.kill, kill)
	default:
		g.term, g.kill = term, kill
	}
}

// keepDeadline does what is due, each once.
func (g *guard) keepDeadline(now time.Duration) {
	passed := func(at *time.Duration) bool {
		due := *at != 0 && now >= *at
		if due {
			*at = 0
		}
		return due
	}
	g.mu.Lock()
	term, kill, stop := passed(&g.term), passed(&g.kill), passed(&g.stop)
	late := term || kill
	g.termed, g.byDeadline = g.termed || late, g.byDeadline || late
	g.mu.Unlock()
	if term {
		g.terminate()
	}
	if kill {
		g.free() // a stopped supervisor must not hold its key for ever
	}
	if kill || stop {
		g.doom()
	}
}

// signalGroup sends to the command's process group.
func (g *guard) signalGroup(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.main == 0 {
		return
	}
	if !g.ended {
		_ = syscall.Kill(-g.main, s)
		return
	}
	// The leader's number may be another's by now; those of the group that descend from us are ours.
	left, _ := proc.Descendants(os.Getpid())
	for _, p := range left {
		if p.Group == g.main {
			_ = syscall.Kill(p.PID, s)
		}
	}
}

// terminate sends TERM to everything, the group first, in one piece; CONT lets what is stopped
// hear it.
func (g *guard) terminate() {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		g.signalGroup(s)
		left, _ := proc.Descendants(os.Getpid())
		for _, p := range left {
			if p.Group != g.main {
				_ = syscall.Kill(p.PID, s)
			}
		}
	}
}

// doom has everything killed, in rounds, until nothing is left, which reap sees. A supervisor's
// death, or its Kill, is not to be taken back.
func (g *guard) doom() {
	g.mu.Lock()
	g.doomed = true
	g.mu.Unlock()
}

// killPause is when the next round is due: the first at once, then ever less often, for what
// survives SIGKILL is stuck in the kernel.
func (g *guard) killPause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.doomed || g.empty {
		return -1
	}
	return min(time.Millisecond<<g.rounds, 64*time.Millisecond)
}

func (g *guard) killRound() {
	g.mu.Lock()
	due := g.doomed && !g.empty
	if due {
		g.rounds = min(g.rounds+1, 6)
	}
	g.mu.Unlock()
	if due {
		g.killTree()
	}
}

// free lets go of locks that are held until they are released, once nothing is left.
func (g *guard) free() {
	g.freeOnce.Do(func() { close(g.freed) })
}

// killTree kills what it finds once. Whole groups are killed in one piece, so that a process
// which forks faster than /proc is read does not get away.
func (g *guard) killTree() {
	if g.cgroup != "" {
		_ = cgroup.Kill(g.cgroup)
	}
	g.mu.Lock()
	if g.main != 0 && !g.ended {
		_ = syscall.Kill(-g.main, syscall.SIGKILL)
	}
	g.mu.Unlock()
	left, _ := proc.Descendants(os.Getpid())
	own := syscall.Getpgrp()
	for _, p := range left {
		// A group is within a session, and the sessions below this one are all the run's.
		if p.Group != own {
			_ = syscall.Kill(-p.Group, syscall.SIGKILL)
		}
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}
