package cli

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// passed returns the descriptors above 2 that the caller has passed on: those that are not closed on exec, as
// all are that this process opens itself. From now on they are too, so that nobody gets them by chance.
func passed() (fds []int) {
	if !whole {
		return nil // they are the program's that this is a part of
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil // without /proc no command is started either
	}
	for _, f := range open {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.CloseOnExec(fd)
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

// piped reports whether an output is a pipe or a socket, as in a pipeline: its other commands may need the terminal's
// foreground, in which they are with this process.
func piped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// interruptGroup does for the processes that wait for this one, such as a script, what the terminal would have done if
// its signal had not been for the command's group alone.
func interruptGroup(signal int) {
	if s := unix.Signal(signal); s == unix.SIGINT || s == unix.SIGQUIT {
		_ = unix.Kill(0, s)
	}
}
