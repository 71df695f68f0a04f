package command

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
)

// A Process is a command that Start has started. Its methods are safe for concurrent use.
type Process struct {
	pid              int
	warden, guardian helper
	run, cgroup      string
	madeCgroup       bool
	sock             *os.File
	terminal         *os.File      // nil: the command has none
	modes            *unix.Termios // the terminal's before the command
	cut              atomic.Bool   // the main process did not end by itself
	exited           chan Exit
	empty, reaped    chan struct{}
	told             atomic.Bool // the exit was delivered
	locks            bool        // there are some
	hold             bool        // the guardian keeps the locks …
	released         atomic.Bool // … until now
	bounds           bounds
	overdue          atomic.Bool // the deadline's Kill has passed
	enforcing        sync.Once
}

// Pid returns the pid of the command's main process, which is also the number of its process group.
func (p *Process) Pid() int { return p.pid }

// Extend moves the deadline. Call it after each renewal of the lease. Once the guardian has sent SIGTERM for a
// passed deadline, a call can only bring the kill nearer. An error says that the guardian is gone or does not
// listen; then the last deadline that it received counts.
func (p *Process) Extend(d Deadline) error {
	p.bounds.extend(d)
	return p.send(guardian.Message{Kind: guardian.Extend, Term: d.Term, Kill: d.Kill})
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.empty:
		return fmt.Errorf("signal command %d: %w", p.pid, os.ErrProcessDone)
	default:
		p.tree().SignalGroup(p.pid, !p.told.Load(), sig)
		return nil
	}
}

// Stop has the guardian send SIGTERM to the command and everything that it started, unless a passed deadline or an
// earlier call had it do so before; what is left after grace gets SIGKILL. It returns at once; Empty tells when all
// are gone. A second call can only shorten the grace.
func (p *Process) Stop(grace time.Duration) {
	p.cutOff()
	at := max(clock.System.Boot()+grace, 1)
	p.bounds.stop(at)
	if err := p.send(guardian.Message{Kind: guardian.Stop, Kill: at}); err != nil && !p.isEmpty() { // it does not read
		p.tree().Terminate(p.pid, !p.told.Load(), guardian.Told{})
	}
}

// Kill kills the command and everything that it started. It returns at once; Empty tells when all are gone.
func (p *Process) Kill() {
	p.cutOff()
	p.bounds.stop(1) // long past
	_ = p.send(guardian.Message{Kind: guardian.KillAll})
	_, _ = p.killWork() // enforce goes on until nothing is left
}

// cutOff notes that the main process is ended from here, if it has not ended before.
func (p *Process) cutOff() {
	if !p.told.Load() {
		p.cut.Store(true)
	}
}

// Release lets the guardian free the locks of a Spec with HoldLocks, once nothing of the command is left. It
// returns at once; Reaped tells when they are free.
func (p *Process) Release() {
	_ = p.send(guardian.Message{Kind: guardian.Release})
	p.released.Store(true)
	if p.isEmpty() {
		p.boundEnd()
	}
}

// Exited returns a channel that delivers, once, how the main process ended.
func (p *Process) Exited() <-chan Exit { return p.exited }

// Empty returns a channel that is closed when the command and everything that it started are gone. The guardian has
// then let go of the locks, unless Spec.HoldLocks is set. (With Leave: when the main process is gone.) The channel
// of Exited delivers before.
func (p *Process) Empty() <-chan struct{} { return p.empty }

func (p *Process) isEmpty() bool {
	select {
	case <-p.empty:
		return true
	default:
		return false
	}
}

// Reaped returns a channel that is closed a moment after Empty (and Release), when the guardian has ended as well.
// A process that exits right after Empty should wait for it, so that it leaves no zombie to an init that does not
// reap.
func (p *Process) Reaped() <-chan struct{} { return p.reaped }

// Leftovers returns the pids of the living processes of the command, with that of the main process while it lives.
func (p *Process) Leftovers() []int {
	if p.isEmpty() {
		return nil
	}
	below := p.tree().Living()
	pids := make([]int, len(below))
	for i, s := range below {
		pids[i] = s.PID
	}
	return pids
}

// tree is the command, without those that guard it.
func (p *Process) tree() guardian.Tree {
	switch {
	case p.warden.alive():
		return guardian.Tree{Root: p.warden.pid, Spare: p.guardian.pid}
	case p.guardian.alive(): // somebody else's child by now
		return guardian.Tree{Root: p.guardian.pid}
	}
	return guardian.Tree{} // their numbers may be others'
}

var errGuardianGone = errors.New("the guardian is gone")

// send never blocks: a guardian that does not read must not hold up a heartbeat. One that was stopped
// is continued.
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
	p.wake()
	return nil
}
