package guardian

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// A command that has the terminal is in the session of its supervisor, in a group of its own in the foreground. That
// the group is there before the command begins is the usher's part: the child itself has to say it, with
// SIGTTOU ignored, and the command must not inherit that.

// execute executes the command, by an usher where it is to have the terminal.
func (g *guard) execute(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if g.arm.Foreground == 0 {
		return syscall.ForkExec(path, args, attr)
	}
	var failed [2]int
	if err := syscall.Pipe2(failed[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer syscall.Close(failed[0])
	with := *attr
	with.Files = append(append([]uintptr{}, attr.Files...), uintptr(failed[1]))
	argv := append([]string{usher, strconv.Itoa(len(attr.Files)), strconv.Itoa(int(g.arm.Foreground)), path}, args...)
	pid, err = syscall.ForkExec("/proc/self/exe", argv, &with)
	_ = syscall.Close(failed[1])
	if err != nil {
		return 0, err
	}
	var why [1]byte
	for {
		n, err := syscall.Read(failed[0], why[:])
		switch {
		case err == syscall.EINTR:
			continue
		case n == 1:
			return 0, syscall.Errno(why[0])
		}
		return pid, nil // the pipe was closed by the exec
	}
}

// show is the life of an usher.
func show(to, from, path string, args []string) {
	runtime.LockOSThread()
	failed, _ := strconv.Atoi(to)
	group, _ := strconv.Atoi(from)
	syscall.CloseOnExec(failed)
	before := disposition(syscall.SIGTTOU, sigIgnore)
	if foreground() == group { // else a shell has it by now
		setForeground(os.Getpid())
	}
	disposition(syscall.SIGTTOU, before)
	_ = prctl(prSetDeathSignal, uintptr(syscall.SIGKILL)) // it is the thread's that executes the command
	err := syscall.Exec(path, args, os.Environ())
	disposition(syscall.SIGTTOU, sigIgnore)
	setForeground(group)
	_, _ = syscall.Write(failed, []byte{byte(errnoOf(err))})
	os.Exit(fault)
}

// leaveTerminal takes this process out of the session of the command. The command's group is then an orphan, which the
// kernel does not stop for Ctrl-Z: a command that is stopped would keep its lease, and nobody could tell it to go on.
func (g *guard) leaveTerminal(pid int) {
	if g.arm.Foreground == 0 {
		return
	}
	_, _ = syscall.Setsid()
	_ = syscall.Kill(-pid, syscall.SIGCONT) // should it have been stopped before
}

// foreground returns the group in the foreground of the terminal at standard input, 0 if that is none of this session.
func foreground() int {
	var group int32
	if _, err := call("ioctl", syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)), 0, 0); err != nil {
		return 0
	}
	return int(group)
}

func setForeground(group int) {
	to := int32(group)
	_, _ = call("ioctl", syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&to)), 0, 0)
}
