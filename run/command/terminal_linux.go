package command

import (
	"errors"
	"os"
	ossignal "os/signal"

	"golang.org/x/sys/unix"
)

// terminal is what the command gets the foreground of, nil if nothing.
func (s Spec) terminal() *os.File {
	if !s.Foreground || s.User != nil || s.Stdin == nil {
		return nil
	}
	// Of a terminal that is not this process's own there is no answer.
	if group, err := unix.IoctlGetInt(int(s.Stdin.Fd()), unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil
	}
	return s.Stdin
}

// modesOf are the modes of a terminal, nil without one.
func modesOf(terminal *os.File) *unix.Termios {
	if terminal == nil {
		return nil
	}
	modes, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	return modes
}

// takeTerminal brings this process's group to the foreground again, where the command's is, or one that has ended. A
// living one is that of a process which the command has left, or of a shell that thinks this process stopped.
func (p *Process) takeTerminal() {
	if p.terminal == nil {
		return
	}
	fd := int(p.terminal.Fd())
	front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == nil && (front == p.pid || errors.Is(unix.Kill(-front, 0), unix.ESRCH)) {
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// putBack gives the terminal the modes that it had before a command that did not end by itself, and so could not put
// them back. Those that a command has left by its own end are its own business, as under a shell. Another group in the
// foreground has modes of its own. It does not wait for what was printed: a terminal that nobody reads would hold the
// lease for ever.
func (p *Process) putBack() {
	if p.modes == nil || !p.cut.Load() {
		return
	}
	fd := int(p.terminal.Fd())
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && front == unix.Getpgrp() {
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, p.modes)
	}
}

// leaveTerminal takes it for the last time.
func (p *Process) leaveTerminal() {
	if p.terminal != nil {
		p.takeTerminal()
		p.putBack()
		ossignal.Reset(unix.SIGTTOU)
	}
}

// typed returns the signal that ended the command, if its terminal may have sent it: this process did not get it then.
func (p *Process) typed(x Exit) os.Signal {
	if p.terminal != nil && (x.Signal == unix.SIGINT || x.Signal == unix.SIGQUIT || x.Signal == unix.SIGHUP) {
		return x.Signal
	}
	return nil
}
