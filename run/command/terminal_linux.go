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

// leaveTerminal takes it for the last time.
func (p *Process) leaveTerminal() {
	if p.terminal != nil {
		p.takeTerminal()
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
