package guardian

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// ward is the life of a warden: it starts the guardian, and waits for it to end. A guardian that ends
// well leaves nothing behind, or what it was told to leave. When one was killed, its orphans come to
// the warden, whatever session and environment they have, and the warden kills them all.
func ward(cgroupPath, numbers, locks string, args []string) error {
	ignoreSignals()
	locked, err := strconv.Atoi(locks)
	if err != nil {
		return err
	}
	given, err := parseGiven(numbers, Socket+1+locked)
	if err != nil {
		return err
	}
	// Readers of a pipe that the supervisor has got from anybody must see its end.
	if err := closeInherited(Socket + 1 + locked + len(given)); err != nil {
		return err
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := prctl(prSetSubreaper, 1); err != nil {
		return err
	}
	rename(wardenComm)
	_ = prctl(prSetDeathSignal, uintptr(syscall.SIGCONT)) // should it be stopped when the supervisor dies
	pid, err := startGuardian(locked, given, append([]string{Name, os.Args[1], cgroupPath, numbers}, args...))
	if err != nil {
		_ = send(Message{Kind: Failed, Value: int64(errnoOf(err))})
		return nil
	}
	// The connection and the command's output are not the warden's. The locks are: should the guardian be
	// killed, they are held until what it left is gone.
	_ = syscall.Close(Socket)
	closeGiven(given)
	if err := nullStdio(); err != nil {
		return err
	}
	os.Exit(await(pid, cgroupPath))
	return nil
}

// startGuardian hands on all descriptors, and after the locks the reading end of a pipe that ends with
// the warden: when nobody is there any more to catch its orphans, the guardian kills everything.
func startGuardian(locks int, inherited []given, argv []string) (pid int, err error) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	// The writing end stays open for as long as the warden lives.
	defer syscall.Close(pipe[0])
	var files []uintptr
	for fd := range Socket + 1 + locks {
		files = append(files, uintptr(fd))
	}
	files = append(files, uintptr(pipe[0]))
	for _, g := range inherited {
		files = append(files, uintptr(g.fd))
	}
	return syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{Env: os.Environ(), Files: files})
}

// await returns once the warden has no children, with the status of the guardian.
func await(guardian int, cgroupPath string) (status int) {
	var ended bool
	for wait := time.Millisecond; ; {
		options := uintptr(0)
		if ended {
			// Kill in rounds until nobody is left, which alone proves it.
			if cgroupPath != "-" {
				_ = cgroup.Kill(cgroupPath)
			}
			_, _ = Tree{Root: os.Getpid()}.Kill()
			time.Sleep(wait)
			if wait == longestWait/2 {
				sayStuck()
			}
			wait, options = min(2*wait, longestWait), syscall.WNOHANG
		}
		if errors.Is(awaitDead(options), syscall.ECHILD) {
			if cgroupPath != "-" {
				_ = cgroup.Remove(cgroupPath)
			}
			return status
		}
		for pid, ws := reapOne(); pid != 0; pid, ws = reapOne() {
			if pid != guardian {
				continue
			}
			if ended, status = true, ws.ExitStatus(); ws.Signaled() {
				status = 128 + int(ws.Signal())
			}
			if status == 0 {
				return 0
			}
		}
	}
}

// longestWait is the pause between rounds that grows no more.
const longestWait = 64 * time.Millisecond

// sayStuck has contenders see that something survives SIGKILL. The name is the process's, whichever thread says it.
func sayStuck() { _ = os.WriteFile("/proc/self/comm", []byte(Stuck), 0) }

// rename is for ps, instead of "exe".
func rename(to string) {
	name := append([]byte(to), 0)
	_ = prctl(prSetName, uintptr(unsafe.Pointer(&name[0])))
}

// nullStdio has nothing on the standard descriptors: readers of the command's output must see its end.
func nullStdio() error {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range Socket {
		err = errors.Join(err, syscall.Dup3(null, fd, 0))
	}
	return errors.Join(err, syscall.Close(null))
}
