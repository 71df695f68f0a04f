package guardian

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// watch listens to the supervisor and keeps the deadline, until the process ends.
func (g *guard) watch() {
	fds := []pollFd{{fd: Socket, events: pollIn}, {fd: int32(g.timer), events: pollIn},
		{fd: int32(Socket + 1 + len(g.locks)), events: pollIn}}
	for {
		if err := errors.Join(g.setTimer(), poll(fds, g.killPause())); err != nil {
			g.doom()
		}
		if fds[0].revents != 0 && !g.listen() {
			fds[0].fd = -1
			g.doom()
			g.free()
		}
		if fds[2].revents != 0 { // the warden is dead
			fds[2].fd = -1
			g.doom()
		}
		g.keepDeadline(bootTime())
		g.killRound()
	}
}

// listen obeys all that the supervisor has said, and says whether it lives. All comes before the
// deadline is judged: a guardian that was stopped finds the renewals of that time here.
func (g *guard) listen() bool {
	for {
		m, err := receive()
		if err != nil {
			return errors.Is(err, syscall.EAGAIN)
		}
		g.obey(m)
	}
}

// setTimer wakes watch at the next instant at which something is due, even if this process is stopped.
func (g *guard) setTimer() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kill := earliest(g.kill, g.stop)
	var last time.Duration
	if g.kill != 0 {
		last = g.kill + g.patience
	}
	if g.stop != 0 {
		last = earliest(last, g.stop+Unhurried)
	}
	if g.doomed && !g.empty {
		patience := Unhurried
		if g.overdue {
			patience = g.patience
		}
		last = earliest(last, bootTime()+patience)
	}
	return errors.Join(setTimer(g.timer, earliest(g.term, kill)), g.alarms.set(g.term, kill, last))
}

// alarms are what the kernel does where this process cannot: it is continued when something is due, and
// killed when it has not done that soon after. With it dies the command, by its PDEATHSIG; the
// warden and the supervisor end the rest.
type alarms struct{ term, kill, last Alarm }

// LastResort is how long after the instant of a kill a guardian that did nothing is killed. Between term
// and kill lies a lease's lost grace, and what is left after that for the kill is a fifth of it (rule L3):
// this is half of that, and at most, or where there is no grace, half a second.
func LastResort(term, kill time.Duration) time.Duration {
	const most = 500 * time.Millisecond
	if term == 0 || kill <= term {
		return most
	}
	return min((kill-term)/10, most)
}

// Unhurried is the same where no lease is about to end, for guardian and supervisor: on a machine that is short of
// processors, a guardian that is only late keeps the lock, and with it the outcome of its run.
const Unhurried = 5 * time.Second

// armTime is how long a guardian waits for its first message.
const armTime = time.Minute

func newAlarms() (a alarms, err error) {
	var errs [3]error
	a.term, errs[0] = NewAlarm(syscall.SIGCONT)
	a.kill, errs[1] = NewAlarm(syscall.SIGCONT)
	a.last, errs[2] = NewAlarm(syscall.SIGKILL)
	if err := errors.Join(errs[:]...); err != nil {
		return a, err
	}
	return a, a.last.Set(bootTime() + armTime)
}

// set sets them; zero is never.
func (a alarms) set(term, kill, last time.Duration) error {
	return errors.Join(a.term.Set(term), a.kill.Set(kill), a.last.Set(last))
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
		g.term, g.kill, g.patience = term, kill, LastResort(term, kill)
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
	g.termed, g.byDeadline = g.termed || late, g.byDeadline || late && !g.mainDead()
	g.overdue = g.overdue || kill
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

// mainDead says whether the main process has ended, reaped or not. Its own end counts, not a deadline that passed
// after it while this process was stopped. The caller has the mutex, so that the number is not another's.
func (g *guard) mainDead() bool { return g.ended || g.main != 0 && isDead(g.main) }

// terminate sends TERM to everything that has got none yet, whoever asks for it: a second one makes many programs give
// up at once.
func (g *guard) terminate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.main != 0 {
		g.tree().Terminate(g.main, !g.ended, g.told)
	}
}

func (g *guard) tree() Tree { return Tree{Root: os.Getpid()} }

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
	return time.Millisecond << g.rounds
}

// longest is the round after which the pause grows no more.
const longest = 6

func (g *guard) killRound() {
	g.mu.Lock()
	due := g.doomed && !g.empty
	stuck := due && g.rounds == longest-1
	if due {
		g.rounds = min(g.rounds+1, longest)
	}
	g.mu.Unlock()
	if due {
		g.killTree()
	}
	if stuck {
		sayStuck()
	}
}

// free lets go of locks that are held until they are released, once nothing is left.
func (g *guard) free() {
	g.freeOnce.Do(func() { close(g.freed) })
}

// killTree kills what it finds once.
func (g *guard) killTree() {
	if g.cgroup != "" {
		_ = cgroup.Kill(g.cgroup)
	}
	g.mu.Lock()
	if g.main != 0 && !g.ended {
		_ = syscall.Kill(-g.main, syscall.SIGKILL)
	}
	g.mu.Unlock()
	_, _ = g.tree().Kill() // reap sees when nothing is left
}
