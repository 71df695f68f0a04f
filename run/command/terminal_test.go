//go:build linux

package command

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
)

// sit supervises a command that is to have the terminal, and then reads a line from it. Signals have it end the
// command.
func sit(args []string) {
	told := make(chan os.Signal, 1)
	ossignal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	p, err := Start(Spec{Args: args[1:], RunID: args[0], Key: testKey, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Foreground: true, Leftovers: Kill, LeftoverGrace: 1, ungrouped: os.Getenv("DIBS_CGROUP") == "off"})
	if err == nil {
		fmt.Printf("guards %d %d\n", p.warden.pid, p.guardian.pid)
		go func() {
			switch <-told {
			case stopIt:
				p.Stop(time.Hour)
			case deadlineIt:
				now := clock.System.Boot()
				_ = p.Extend(Deadline{Term: now, Kill: now + time.Hour})
			case killIt:
				p.Kill()
			}
		}()
		x := <-p.Exited()
		<-p.Reaped()
		fmt.Printf("exit %d typed %v\n", x.Status, p.typed(x))
	} else {
		fmt.Println("error:", err)
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("then %q %v\n", line, err)
}

// What a supervisor that sits at a terminal does at a signal.
const stopIt, deadlineIt, killIt = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM

// join joins a group of processes, and does not heed SIGTERM.
func join(args []string) {
	group, _ := strconv.Atoi(args[0])
	ossignal.Ignore(syscall.SIGTERM)
	fmt.Println("joined", syscall.Setpgid(0, group))
	time.Sleep(time.Hour)
}

// A seat is a terminal with a supervisor at it.
type seat struct {
	*exec.Cmd
	t     *testing.T
	keys  *os.File
	lines *bufio.Scanner
}

// seated has a process at a terminal of its own supervise a command.
func seated(t *testing.T, run string, ungrouped bool, args ...string) *seat {
	t.Helper()
	keys, screen := openTerminal(t)
	s := &seat{exec.Command(os.Args[0], append([]string{"sit", run}, args...)...), t, keys, bufio.NewScanner(keys)}
	s.Stdin, s.Stdout, s.Stderr = screen, screen, screen
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if ungrouped {
		s.Env = append(os.Environ(), "DIBS_CGROUP=off")
	}
	err := s.Start()
	screen.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	return s
}

// openTerminal opens both ends of a new terminal.
func openTerminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("not covered: no terminal can be made here: %v", err)
	}
	keys = os.NewFile(uintptr(fd), "keys")
	t.Cleanup(func() { keys.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("not covered: no terminal can be made here: %v", err)
	}
	_ = keys.SetReadDeadline(time.Now().Add(soon))
	return keys, screen
}

// sees waits for a line on the screen that contains a text.
func (s *seat) sees(text string) string {
	s.t.Helper()
	var before []string
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), text) {
			return s.lines.Text()
		}
		before = append(before, s.lines.Text())
	}
	s.t.Fatalf("the screen does not show %q, but %q, %v", text, before, s.lines.Err())
	return ""
}

func (s *seat) types(text string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// modes are the local ones of the terminal: echo, lines, signals.
func (s *seat) modes() (local uint32) {
	s.t.Helper()
	raw, err := s.keys.SyscallConn() // not Fd, which could make it blocking
	if err != nil {
		s.t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		modes, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		if err != nil {
			s.t.Error(err)
			return
		}
		local = modes.Lflag
	}); err != nil {
		s.t.Fatal(err)
	}
	return local
}

// A command has the terminal of its supervisor while it runs: it can ask there, its group is in the foreground from
// the beginning, and no signal of terminals is ignored. After it the supervisor has the terminal.
func TestACommandHasTheTerminal(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := seated(t, run, ungrouped, shell(run, `read a b c d group session tty front rest </proc/self/stat
			echo "group $((group - front)) $(grep SigIgn /proc/self/status)"; read x </dev/tty; echo "got $x"; exit 4`)...)
		var ignored uint64
		line := strings.TrimSpace(s.sees("group "))
		if _, err := fmt.Sscanf(line, "group 0 SigIgn: %x", &ignored); err != nil || ignored&^librarys != 0 {
			t.Errorf("%q, %v", line, err)
		}
		s.types("hello\n")
		s.sees("got hello")
		s.sees("exit 4 typed <nil>")
		s.goesOn()
	})
}

// goesOn checks that the supervisor has the terminal again.
func (s *seat) goesOn() {
	s.t.Helper()
	s.types("again\n")
	s.sees(`then "again\n" <nil>`)
}

// A command that dibs ends cannot put the terminal's modes back: dibs does, before it says how the command ended. The
// modes that a command has left by its own end stay.
func TestTheTerminalsModesArePutBack(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		how    syscall.Signal // 0: the command ends by itself
		exit   string
		kept   bool
	}{
		"stop":                {"", stopIt, "exit 143", false},
		"a stop that is told": {"trap 'exit 3' TERM; ", stopIt, "exit 3", false},
		"deadline":            {"", deadlineIt, "exit 143", false},
		"a deadline, told":    {"trap 'exit 3' TERM; ", deadlineIt, "exit 3", false},
		"kill":                {"trap '' TERM; ", killIt, "exit 137", false},
		"its own end":         {"", 0, "exit 4", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t)
			end := "while :; do sleep 0.02; done"
			if c.how == 0 {
				end = "exit 4"
			}
			s := seated(t, run, false, shell(run, c.script+"read go; stty -echo -icanon -isig; echo u\"\"p; "+end)...)
			before := s.modes()
			s.sees("guards ")
			s.types("go\n")
			s.sees("up")
			if c.how != 0 {
				signal(t, s.Process.Pid, c.how)
			}
			s.sees(c.exit)
			if after := s.modes(); (after == before) == c.kept {
				t.Errorf("the modes before: %#x, after: %#x; kept as the command left them: %v", before, after, c.kept)
			}
			s.goesOn()
		})
	}
}

// A terminal that nobody reads, with a process that waits to write to it, holds up neither the command's end nor its
// modes.
// Holds: promise 26.
func TestAStalledTerminalHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	s := seated(t, run, false, shell(run, "read go; stty -echo -icanon -isig; echo u\"\"p; while :; do sleep 0.02; done")...)
	before := s.modes()
	s.sees("guards ")
	s.types("go\n")
	s.sees("up")
	var name string
	raw, err := s.keys.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			n, _ := unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
			name = "/dev/pts/" + strconv.Itoa(n)
		})
	}
	fd, opened := unix.Open(name, unix.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil || opened != nil {
		t.Fatal(err, opened)
	}
	t.Cleanup(func() { s.keys.Close() }) // upon which nobody waits for it any more
	var written atomic.Int64
	go func() {
		for {
			if n, err := unix.Write(fd, make([]byte, 1024)); err != nil || n == 0 {
				return
			}
			written.Add(1)
		}
	}()
	for last := int64(0); written.Load() == 0 || written.Load() != last; time.Sleep(200 * time.Millisecond) {
		last = written.Load()
	}
	signal(t, s.Process.Pid, stopIt)
	for end := time.Now().Add(soon); s.modes() != before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the modes are not back")
		}
	}
}

// Ctrl-C is for the command alone, and Ctrl-Z for nobody.
func TestKeysReachTheCommandAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := seated(t, run, ungrouped, shell(run, `trap 'echo in""terrupted' INT; echo up
			while [ -z "$x" ]; do read x; done; echo "got $x"; trap - INT; kill -INT $$`)...)
		s.sees("up")
		s.types("\x1a")
		s.types("\x03")
		s.sees("interrupted")
		s.types("hello\n")
		s.sees("got hello")
		s.sees("exit 130 typed interrupt")
		s.goesOn()
	})
}

// A shell at the terminal controls its jobs as it does without dibs: one that is stopped leaves the foreground to it.
func TestAShellAtTheTerminalControlsItsJobs(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("not covered: bash is not installed")
	}
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := seated(t, run, ungrouped, bash, "--norc", "--noprofile", "-i")
		// By exec: a child of vfork that is stopped before its exec keeps its parent in state D.
		s.types("sh -c 'echo u\"\"p; exec sleep 300'\n")
		s.sees("up")
		s.types("\x1a")
		s.sees("Stopped")
		s.types("kill -9 %1; while kill -0 %1 2>/dev/null; do sleep 0.01; done; exit 5\n")
		s.sees("exit 5 typed <nil>")
		s.goesOn()
	})
}

// A script without a first line runs in a shell, and what cannot be executed is told, as without a terminal.
func TestWhatCannotBeStartedAtATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, want := range map[string]string{
		writeProgram(t, filepath.Join(dir, "lost"), "#!/no/such/interpreter\n", 0o755):        "the interpreter",
		writeProgram(t, filepath.Join(dir, "bare"), "read x </dev/tty; echo got $x\n", 0o755): "got hello",
	} {
		s := seated(t, newRun(t), false, file)
		if want == "got hello" {
			s.types("hello\n")
		}
		s.sees(want)
		s.goesOn()
	}
}

// The kill chain is that of a command without a terminal: whichever of dibs, guardian and warden is killed, nothing of
// the command outlives it.
// Holds: promise 3.
func TestTheKillChainAtATerminal(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		for n, who := range []string{"supervisor", "warden", "guardian"} {
			t.Run(who, func(t *testing.T) {
				run := newRun(t)
				s := seated(t, run, ungrouped, shell(run, escapee(run)+"trap '' INT TERM HUP; while :; do sleep 0.02; done")...)
				guards := [3]int{s.Process.Pid}
				if _, err := fmt.Sscanf(strings.TrimSpace(s.sees("guards ")), "guards %d %d", &guards[1], &guards[2]); err != nil {
					t.Fatal(err)
				}
				awaitLiving(t, run, 2+escaped)
				signal(t, guards[n], syscall.SIGKILL)
				if who != "supervisor" {
					s.sees("exit ")
					s.goesOn()
				}
				awaitWorkGone(t, run)
			})
		}
	})
}

// A process of the command that has joined its supervisor's group is killed alone.
func TestTheSupervisorsGroupIsNotKilled(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := seated(t, run, ungrouped, shell(run, `read a b c warden rest </proc/$PPID/stat; read a b c supervisor rest </proc/$warden/stat
			'`+os.Args[0]+`' join $supervisor & read x; exit 6`)...)
		s.sees("joined <nil>")
		s.types("hello\n")
		s.sees("exit 6 typed <nil>")
		s.goesOn()
		awaitWorkGone(t, run)
	})
}
