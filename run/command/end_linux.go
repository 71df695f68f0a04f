package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// watch passes on what the guardian says, until it has ended.
func (p *Process) watch() {
	defer close(p.reaped)
	defer p.leaveTerminal()
	defer p.bounds.close()
	var why error
	for {
		m, err := p.receive()
		if err != nil {
			why = err
			break
		}
		switch m.Kind {
		case guardian.Exited:
			// The supervisor only ever kills for the deadline: an exit is the command's own.
			ws := unix.WaitStatus(m.Value)
			x := exitOf(ws, m.ByDeadline || p.overdue.Load() && ws.Signaled())
			if x.ByDeadline || x.Signal != 0 {
				p.cut.Store(true)
			}
			p.takeTerminal()
			p.putBack()
			p.exited <- x
			p.told.Store(true)
		case guardian.Empty:
			if p.hold || !p.locks {
				close(p.empty)
				p.awaitEnd()
				return
			}
			p.awaitEnd() // the warden frees the locks with its end
			close(p.empty)
			return
		}
	}
	p.cutOff()
	// The guardian was killed. The warden has, or is, what keeps the number of the command's session
	// from being another's, until it is reaped below.
	p.killRemains()
	p.sock.Close()
	p.awaitWarden()
	p.killRemains() // it may have been stopped, and killed only now
	how := p.reap()
	if p.madeCgroup {
		_ = cgroup.Remove(p.cgroup)
	}
	if !p.told.Load() {
		p.exited <- Exit{Status: StatusFault, ByDeadline: p.overdue.Load(),
			Err: fmt.Errorf("command %d was killed: %w (%s): %w", p.pid, errGuardianGone, how, why)}
	}
	close(p.empty)
}

// awaitEnd waits for a guardian that has nothing left to guard but the locks.
func (p *Process) awaitEnd() {
	if !p.hold || p.released.Load() {
		p.boundEnd()
	}
	if _, err := p.receive(); errors.Is(err, os.ErrDeadlineExceeded) {
		p.killGuards()
	}
	p.sock.Close()
	p.awaitWarden()
	_ = p.reap()
}

// boundEnd has awaitEnd wait no longer than patience. Before it, a guardian that was stopped is continued.
func (p *Process) boundEnd() {
	p.wake()
	_ = p.sock.SetReadDeadline(time.Now().Add(patience))
}

func exitOf(ws unix.WaitStatus, byDeadline bool) Exit {
	if ws.Signaled() {
		return Exit{Status: 128 + int(ws.Signal()), Signal: ws.Signal(), ByDeadline: byDeadline}
	}
	return Exit{Status: ws.ExitStatus(), ByDeadline: byDeadline}
}

// remains are the processes of the command that go on although the guardian let go of them, as far
// as this user can see them.
func (p *Process) remains() (pids []int) {
	all, _ := proc.All()
	ours := func(s proc.Stat) bool { return !p.guards(s) && s.Alive() && ofRun(s.PID, p.run) == yes }
	for _, s := range proc.Below(all, ours) {
		pids = append(pids, s.PID)
	}
	return pids
}

func (p *Process) guards(s proc.Stat) bool { return s.PID == p.warden.pid || s.PID == p.guardian.pid }

// killRemains kills what a dead guardian leaves, until it is certain that nothing is left. The main
// process gets its SIGKILL from the kernel; the others have come to the warden, and where that was
// killed too, they are found by cgroup, session and environment.
func (p *Process) killRemains() {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		p.warden.signal(syscall.SIGCONT)
		if p.madeCgroup {
			_ = cgroup.Kill(p.cgroup)
		}
		all, err := proc.All()
		remains := proc.Below(all, func(s proc.Stat) bool {
			return s.PID != p.warden.pid && (s.Parent == p.warden.pid || s.Session == p.warden.pid || ofRun(s.PID, p.run) == yes)
		})
		populated := false
		if p.madeCgroup {
			populated, _, _ = cgroup.Populated(p.cgroup)
		}
		if err == nil && len(remains) == 0 && !populated {
			return
		}
		killAll(remains)
		time.Sleep(wait)
	}
}

// abandon ends a guardian that has started nothing, or has not said so in time, and removes what was
// made for it. It returns the last message that nobody had read yet, if any, and how the guardian ended.
func (p *Process) abandon() (said guardian.Message, how string) {
	p.disconnect()
	p.killRemains()
	p.killGuards()
	p.killRemains()
	p.awaitWarden()
	how = p.reap()
	p.cutOff()
	p.leaveTerminal()
	p.bounds.close()
	if p.madeCgroup {
		_ = cgroup.Remove(p.cgroup)
	}
	for {
		m, err := p.receive()
		if err != nil {
			p.sock.Close()
			return said, how
		}
		said = m
	}
}

// disconnect ends the connection both ways: from now on the guardian starts nothing. What it has said can still be
// read.
func (p *Process) disconnect() {
	_ = p.sock.SetReadDeadline(time.Time{})
	if raw, err := p.sock.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// endUnheard ends an abandoned process of which nobody knows whether its command ran.
func (p *Process) endUnheard(d Deadline, why error) {
	p.told.Store(true)
	p.exited <- Exit{Status: StatusFault, ByDeadline: d.Kill != 0 && clock.System.Boot() >= d.Kill, Err: why}
	close(p.empty)
	close(p.reaped)
}

// awaitWarden waits for the warden to end, which has nothing left to do, but does not reap it. One that
// does not end by itself is killed.
func (p *Process) awaitWarden() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for errors.Is(unix.Waitid(unix.P_PID, p.warden.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	for {
		select {
		case <-ended:
			p.awaitGuardian()
			return
		case <-time.After(patience):
			p.killGuards()
		}
	}
}

// awaitGuardian waits for one that was killed together with its warden: its locks are free only then. It
// is bounded, since a frozen process dies only when it is thawed.
func (p *Process) awaitGuardian() {
	for end := time.Now().Add(patience); p.guardian.alive() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// reap reaps the warden, and says how the guardian ended.
func (p *Process) reap() string {
	ws, err := reapWarden(p.warden.pid)
	switch {
	case err != nil:
		return "it was reaped elsewhere: " + err.Error()
	case ws.Signaled():
		return "the warden's end: signal: " + ws.Signal().String()
	case ws.ExitStatus() > 128:
		return "signal: " + syscall.Signal(ws.ExitStatus()-128).String()
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}
