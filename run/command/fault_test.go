//go:build linux

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian"
)

// What a host lacks is its fault; what a command is by itself is the command's.
// Holds: T2.
func TestTheHostsFaultIsNotTheCommands(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.EBADF: true, syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.ENOENT: true, fs.ErrNotExist: false,
		errUnborn: true, errInterpreter{"no interpreter"}: true,
		syscall.E2BIG: false, syscall.ENOEXEC: false, syscall.EACCES: false, syscall.EPERM: false, syscall.ETIME: false, syscall.EIO: false,
		io.EOF: false, errGuardianGone: false, nil: false,
	} {
		if got := HostFault(err); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
		if got := HostFault(&StartError{StatusFault, "c", fmt.Errorf("start: %w", err)}); err != nil && got != want {
			t.Errorf("%v, wrapped: %t, want %t", err, got, want)
		}
		if status := startError("c", err).Status; want && status != StatusFault && !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%v: status %d, want %d", err, status, StatusFault)
		}
	}
}

// A guardian that ends before it is ready has started nothing. Of one that ended later, nobody knows.
// Holds: T2.
func TestAGuardianThatEndsBeforeItIsReady(t *testing.T) {
	t.Parallel()
	for ready, want := range map[bool]bool{false: true, true: false} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := &Process{sock: os.NewFile(uintptr(pair[0]), "ours")}
		if ready {
			_, err = unix.Write(pair[1], guardian.Message{Kind: guardian.Waiting}.Encode())
		}
		if closed := unix.Close(pair[1]); err != nil || closed != nil {
			t.Fatal(err, closed)
		}
		if _, err := p.answer(0); err == nil || HostFault(err) != want {
			t.Errorf("ready %t: %v, the host's fault: %t, want %t", ready, err, !want, want)
		}
		p.sock.Close()
	}
}

// A real process that has no descriptors left, or whose command's user may have no more processes, knows that nothing
// was started, and whose fault that is.
// Holds: T2.
func TestAStarvedProcessStartsNothing(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"descriptors", "processes"} {
		if of == "processes" && os.Getuid() != 0 {
			continue // only root has commands of other users
		}
		out, err := exec.Command(os.Args[0], "starve", of).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "125 true ") {
			t.Errorf("without %s: %v: %s", of, err, out)
		}
	}
}

// starve starts a command without descriptors or processes for it, and prints whose fault the failure is.
func starve(args []string) {
	s, which := Spec{Args: []string{"/bin/true"}, RunID: "starved"}, syscall.RLIMIT_NOFILE
	limit := syscall.Rlimit{Cur: 3, Max: 3}
	if args[0] == "processes" { // those of root have no bound
		which, limit, s.User = unix.RLIMIT_NPROC, syscall.Rlimit{}, &User{Name: "starved", UID: 64999, GID: 64999}
		only := exec.Command("sleep", "60") // the kernel counts those that there are
		only.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.User.UID, Gid: s.User.GID}, Pdeathsig: syscall.SIGKILL}
		if err := only.Start(); err != nil {
			panic(err)
		}
		defer only.Process.Kill() //nolint:errcheck // it ends by itself
	}
	if err := syscall.Setrlimit(which, &limit); err != nil {
		panic(err)
	}
	p, err := Start(s)
	if err == nil {
		<-p.Reaped()
		fmt.Println("it was started")
		return
	}
	fmt.Println(startResult(err).Status, HostFault(err), err)
}
