package guardian

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// The system calls of a guardian, made through package syscall alone: whatever this package
// imports is initialised before it, and golang.org/x/sys/unix comes after much of a large
// binary (see package early).

const (
	clockBoottime     = 7
	prSetDeathSignal  = 1
	prSetName         = 15
	prSetSubreaper    = 36
	timerCloexec      = syscall.O_CLOEXEC
	timerAbsolute     = 1
	pollIn, pollHup   = 0x1, 0x10
	waitAll           = 0 // P_ALL
	waitPID           = 1 // P_PID
	waitExited        = 4
	waitLook          = 0x01000000 // WNOWAIT: leave it to be reaped
	waitAnyClone      = 0x40000000 // __WALL: also children that do not send SIGCHLD
	sysCloseRange     = 436
	closeRangeCloexec = 4
)

// call makes a system call. Some of its arguments are pointers, which the compiler does not see any
// more: what they point to must not lie on the stack, which moves when it grows, for the kernel
// would then write where nothing is. The directive has it on the heap and kept until the call is over.
//
//go:uintptrescapes
func call(name string, trap, a, b, c, d, e uintptr) (int, error) {
	for {
		r, _, errno := syscall.Syscall6(trap, a, b, c, d, e, 0)
		switch errno {
		case 0:
			return int(r), nil
		case syscall.EINTR:
			continue
		}
		return -1, os.NewSyscallError(name, errno)
	}
}

// bootTime is the clock that goes on in suspend, as clock.System.Boot tells it.
func bootTime() time.Duration {
	var ts syscall.Timespec
	_, _ = call("clock_gettime", syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0, 0, 0) // cannot fail
	return time.Duration(ts.Nano())
}

// prctl is to be called with a pointer converted in the call itself, as call is.
//
//go:uintptrescapes
func prctl(option, arg uintptr) error {
	_, err := call("prctl", syscall.SYS_PRCTL, option, arg, 0, 0, 0)
	return err
}

// ignore has the kernel drop a signal.
func ignore(s syscall.Signal) { disposition(s, sigIgnore) }

// disposition says what the kernel does with a signal, and returns what it did before.
func disposition(s syscall.Signal, to sigaction) (before sigaction) {
	_, _ = call("rt_sigaction", syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&before)), 8, 0)
	return before
}

// A sigaction is the kernel's, with handler, flags and mask.
type sigaction [8]uintptr

var sigIgnore = sigaction{1} // SIG_IGN; no flags, an empty mask

// newTimer makes a timer on the boot clock, readable when it has expired.
func newTimer() (int, error) {
	return call("timerfd_create", syscall.SYS_TIMERFD_CREATE, clockBoottime, timerCloexec, 0, 0, 0)
}

// setTimer sets the instant at which a timer expires, zero for never; it unsets an expiry.
func setTimer(timer int, at time.Duration) error {
	spec := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(int64(at))}
	_, err := call("timerfd_settime", syscall.SYS_TIMERFD_SETTIME, uintptr(timer), timerAbsolute, uintptr(unsafe.Pointer(&spec)), 0, 0)
	return err
}

type pollFd struct {
	fd              int32
	events, revents int16
}

// poll waits until one of the descriptors is ready, or for the timeout if it is not negative.
func poll(fds []pollFd, timeout time.Duration) error {
	var ts *syscall.Timespec
	if timeout >= 0 {
		t := syscall.NsecToTimespec(int64(timeout))
		ts = &t
	}
	_, err := call("ppoll", syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(ts)), 0, 0)
	return err
}

// awaitDead returns when there is a dead child, which it does not reap, or with syscall.ECHILD
// when there are no children; with syscall.WNOHANG among the options it returns at once.
func awaitDead(options uintptr) error {
	_, err := call("waitid", syscall.SYS_WAITID, waitAll, 0, 0, waitExited|waitLook|waitAnyClone|options, 0)
	return err
}

// isDead says whether a child is dead. It does not reap it.
func isDead(pid int) bool {
	var info struct { // siginfo_t: the signal is 0 where there is nothing to tell
		signal int32
		_      [124]byte
	}
	_, err := call("waitid", syscall.SYS_WAITID, waitPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), waitExited|waitLook|waitAnyClone|syscall.WNOHANG, 0)
	return err == nil && info.signal != 0
}

// reapOne reaps a dead child; pid is 0 if there is none.
func reapOne() (pid int, ws syscall.WaitStatus) {
	for {
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|waitAnyClone, nil)
		if !errors.Is(err, syscall.EINTR) {
			return max(pid, 0), ws
		}
	}
}

// closeOnExec marks every descriptor but the standard ones.
func closeOnExec() error {
	_, err := call("close_range", sysCloseRange, Socket, uintptr(^uint32(0)), closeRangeCloexec, 0, 0)
	if err == nil {
		return nil
	}
	return eachDescriptor(Socket, syscall.CloseOnExec) // Linux before 5.11
}

// closeInherited closes the descriptors from a number on that this process was started with, and that it is not to
// have. Those that the runtime has opened itself are closed on exec.
func closeInherited(from int) error {
	return eachDescriptor(from, func(fd int) {
		if flags, err := call("fcntl", syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0, 0, 0); err == nil && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(fd)
		}
	})
}

func eachDescriptor(from int, do func(fd int)) error {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= from {
			do(fd)
		}
	}
	return err
}
