package command

import (
	"errors"
	"os"
	ossignal "os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wardens are the children of this process that it waits for itself. The lock is held from the fork until the pid is
// known, and while one is reaped.
var wardens struct {
	sync.Mutex
	pids map[int]bool
}

// forkWarden starts a child that ReapOrphans leaves alone.
func forkWarden(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	wardens.Lock()
	defer wardens.Unlock()
	if pid, err = syscall.ForkExec("/proc/self/exe", argv, attr); err == nil {
		if wardens.pids == nil {
			wardens.pids = map[int]bool{}
		}
		wardens.pids[pid] = true
	}
	return pid, err
}

// reapWarden reaps a child that has ended.
func reapWarden(pid int) (ws unix.WaitStatus, err error) {
	wardens.Lock()
	defer wardens.Unlock()
	for {
		if _, err = unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			delete(wardens.pids, pid)
			return ws, err
		}
	}
}

// ReapOrphans reaps, from now on, children of this process that it has not started: as process 1 of a container it
// gets what a command leaves behind, and a process that a shell replaced with itself has the shell's. Where there are
// none and none can come, it does nothing. Call it at most once, and only in a program that starts no other children
// than this package does.
func ReapOrphans() {
	var subreaper int32
	_ = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	if os.Getpid() != 1 && subreaper == 0 && errors.Is(err, unix.ECHILD) {
		return
	}
	died := make(chan os.Signal, 1)
	ossignal.Notify(died, unix.SIGCHLD)
	go func() {
		for {
			var again <-chan time.Time
			if reapOrphans() {
				again = time.After(100 * time.Millisecond)
			}
			select {
			case <-died:
			case <-again:
			}
		}
	}()
}

// reapOrphans reaps those that are dead. It reports whether one of our own is in the way, which hides the others until
// it is reaped.
func reapOrphans() (again bool) {
	wardens.Lock()
	defer wardens.Unlock()
	for {
		var info struct { // siginfo_t: three numbers, and aligned as a pointer what belongs to the signal
			_   [3]int32
			_   [0]uintptr
			pid int32
			_   [112]byte
		}
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || info.pid == 0:
			return false
		case wardens.pids[int(info.pid)]:
			return true
		}
		_, _ = unix.Wait4(int(info.pid), nil, unix.WNOHANG|unix.WALL, nil)
	}
}
