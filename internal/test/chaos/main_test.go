//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/test/testbin"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// insideEnv is set in the namespaces; its value is the binary under test.
const insideEnv = "DIBS_CHAOS_INSIDE"

// parts are what the test binary plays besides the test.
var parts = map[string]func(args []string) int{"host": playHost, "work": playWork, "beat": playBeat}

var (
	dibsBinary string
	self       string // this binary
	// notIsolated says why the rounds cannot run here; nil where they can.
	notIsolated error
)

func TestMain(m *testing.M) {
	var err error
	if self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		if play, ok := parts[os.Args[1]]; ok {
			os.Exit(play(os.Args[2:]))
		}
	}
	if dibsBinary = os.Getenv(insideEnv); dibsBinary != "" {
		if err := errors.Join(settle(), probe()); err != nil {
			fmt.Fprintln(os.Stderr, "chaos: in its namespaces:", err)
			os.Exit(unsettled)
		}
		os.Exit(m.Run())
	}
	status, err := isolated()
	if err == nil {
		os.Exit(status)
	}
	notIsolated = err
	os.Exit(m.Run())
}

// binPrefix begins the names of directories that a killed test process leaves; its pid follows.
const binPrefix = "dibs-chaos-bin-"

// removeLeftovers removes the binaries of test processes that were killed.
func removeLeftovers() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), binPrefix+"*")) // the pattern is well formed
	for _, dir := range found {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), binPrefix), "-")
		if !alive(pid) {
			_ = os.RemoveAll(dir) // the next one tries again
		}
	}
}

// isolated builds dibs, and runs this binary again in namespaces of its own. An error means that it never began.
func isolated() (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("network and mount namespaces need root")
	}
	removeLeftovers()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", binPrefix, os.Getpid()))
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary, err := testbin.Dibs(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, nil
	}
	runtime.LockOSThread() // the death signal comes at the end of the thread that started it
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS}
	if group, err := makeGroup(); err == nil {
		defer removeGroup(group)
		f, err := os.Open(group)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
		cmd.Env = append(cmd.Env, groupEnv+"="+group)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("new namespaces: %w", err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = cmd.Process.Kill() // and with it everything in its namespaces
	}()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return 0, err
	} else if exit.ExitCode() == unsettled {
		return 0, errors.New("the namespaces lack something: see above")
	}
	return max(cmd.ProcessState.ExitCode(), 1), nil
}

// unsettled is the exit status of a process that finds its namespaces of no use.
const unsettled = 77

// probe finds out whether there are wires between network namespaces.
func probe() error {
	return errors.Join(command("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"), command("ip", "link", "del", "probe0"))
}

// settle makes new namespaces usable: mounts that nobody else sees, a /proc of these processes, a loopback.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	return command("ip", "link", "set", "lo", "up")
}

// command runs a program to its end; its error has what it printed.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// notCovered says what this machine cannot do, at the end of make test as well. Nil is nothing to say.
func notCovered(t *testing.T, why error, what string) {
	t.Helper()
	if why == nil {
		return
	}
	if uncovered.Required() {
		t.Fatalf("%s: %v; DIBS_TEST_REQUIRE=all forbids skipping", what, why)
	}
	t.Logf("NOT COVERED: %s: %v", what, why)
	uncovered.Record(t, what)
}
