package command

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// A Process is a command that was started. Its methods are safe for concurrent use.
type Process struct {
	pid, guardian int
	run, cgroup   string
	madeCgroup    bool
	sock          *os.File
	exited        chan Exit
	empty, reaped chan struct{}
	told          atomic.Bool // the exit was delivered
}

// Pid is that of the command's main process, and the number of its group.
func (p *Process) Pid() int { return p.pid }

// Extend moves the deadline; call it after each renewal of the lease. Once the guardian has sent
// SIGTERM for a passed deadline, the instant of the kill is only ever moved nearer. An error
// says that the guardian is gone, or does not listen: the deadline is then the last one it heard.
func (p *Process) Extend(d Deadline) error {
	return p.send(guardian.Message{Kind: guardian.Extend, Term: d.Term, Kill: d.Kill})
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.send(guardian.Message{Kind: guardian.Signal, Value: int64(sig)})
}

// Stop tells the command and all that it started to terminate, and kills after grace what is
// left. It returns at once; Empty tells when all are gone. A second Stop can only shorten the grace.
func (p *Process) Stop(grace time.Duration) {
	at := max(clock.System.Boot()+grace, 1)
	_ = p.send(guardian.Message{Kind: guardian.Stop, Kill: at}) // without a guardian all are killed anyway
}

// Kill kills the command and all that it started, now. It returns at once; Empty tells when all
// are gone.
func (p *Process) Kill() {
	if p.cgroup != "" {
		_ = cgroup.Kill(p.cgroup) // the nearest way
	}
	_ = p.send(guardian.Message{Kind: guardian.KillAll})
}

// Release lets the guardian free the locks of a Spec with HoldLocks once nothing of the command
// is left. It returns at once; Reaped tells when they are free.
func (p *Process) Release() { _ = p.send(guardian.Message{Kind: guardian.Release}) }

// Exited delivers, once, how the main process ended.
func (p *Process) Exited() <-chan Exit { return p.exited }

// Empty is closed when the command and everything it started are gone, and with them the
// guardian's hold of the locks unless Spec.HoldLocks (with Leave: when the main process is gone).
// Exited delivers before.
func (p *Process) Empty() <-chan struct{} { return p.empty }

// Reaped is closed a moment after Empty (and Release), when the guardian has ended as well. A process that
// would exit right after Empty waits for it, so that it leaves no zombie to an init that does
// not reap.
func (p *Process) Reaped() <-chan struct{} { return p.reaped }

// Leftovers lists the living processes of the command: all of them, the main one included while
// it lives.
func (p *Process) Leftovers() []int {
	select {
	case <-p.empty:
		return nil
	default:
	}
	below, _ := proc.Descendants(p.guardian)
	pids := make([]int, len(below))
	for i, s := range below {
		pids[i] = s.PID
	}
	return pids
}

var errGuardianGone = errors.New("the guardian is gone")

// send never blocks: a guardian that does not read must not hold up a heartbeat.
func (p *Process) send(m guardian.Message) error {
	raw, err := p.sock.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	closed := raw.Control(func(fd uintptr) {
		sendErr = unix.Sendto(int(fd), m.Encode(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	})
	if closed != nil || errors.Is(sendErr, unix.EPIPE) || errors.Is(sendErr, unix.ECONNRESET) {
		sendErr = errGuardianGone
	}
	if sendErr != nil {
		return fmt.Errorf("tell the guardian of command %d: %w", p.pid, sendErr)
	}
	return nil
}

// watch passes on what the guardian says, until it has ended.
func (p *Process) watch() {
	defer close(p.reaped)
	var why error
	for {
		m, err := p.receive()
		if errors.Is(err, unix.ECONNRESET) {
			// It ended with a message of ours unread, which is told before what it said last.
			m, err = p.receive()
		}
		if err != nil {
			why = err
			break
		}
		switch m.Kind {
		case guardian.Exited:
			p.exited <- exitOf(unix.WaitStatus(m.Value), m.ByDeadline)
			p.told.Store(true)
		case guardian.Empty:
			close(p.empty)
			_, _ = p.receive() // it ends now, or once the locks are released
			p.sock.Close()
			_ = p.reapGuardian()
			return
		}
	}
	// The guardian was killed. Its zombie keeps the number of the command's session from being
	// another's, until it is reaped below.
	p.killRemains()
	p.sock.Close()
	how := p.reapGuardian()
	if p.madeCgroup {
		_ = cgroup.Remove(p.cgroup)
	}
	if !p.told.Load() {
		p.exited <- Exit{Status: StatusFault, Err: fmt.Errorf("command %d was killed: %w (%s): %w", p.pid, errGuardianGone, how, why)}
	}
	close(p.empty)
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
	for _, s := range proc.Below(all, func(s proc.Stat) bool { return s.PID != p.guardian && s.Alive() && ofRun(s.PID, p.run) == yes }) {
		pids = append(pids, s.PID)
	}
	return pids
}

// killRemains kills what a dead guardian leaves, until nothing is left. The main process gets its
// SIGKILL from the kernel; the others are found by cgroup, session and environment.
func (p *Process) killRemains() {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if p.madeCgroup {
			_ = cgroup.Kill(p.cgroup)
		}
		all, _ := proc.All()
		remains := proc.Below(all, func(s proc.Stat) bool {
			return s.PID != p.guardian && (s.Session == p.guardian || ofRun(s.PID, p.run) == yes)
		})
		populated := false
		if p.madeCgroup {
			populated, _, _ = cgroup.Populated(p.cgroup)
		}
		if len(remains) == 0 && !populated {
			return
		}
		killAll(remains)
		time.Sleep(wait)
	}
}
