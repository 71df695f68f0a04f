//go:build linux

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is one that the test started. It is killed when the test ends, at the latest.
type process struct {
	*exec.Cmd
	t       *testing.T
	out     string // the prefix of its files
	ended   chan struct{}
	endedAt time.Time // once ended is closed
}

// dibs starts dibs in the world.
func (w *world) dibs(args ...string) *process {
	w.t.Helper()
	return w.start(w.command(dibsBinary, args...))
}

// run starts `dibs run` with a result as JSON.
func (w *world) run(key string, flags, command []string) *process {
	w.t.Helper()
	return w.start(w.running(key, flags, command))
}

// elsewhere is run in a pid namespace of its own, from which nothing of this one can be seen.
func (w *world) elsewhere(key string, flags, command []string) *process {
	w.t.Helper()
	cmd := w.running(key, flags, command)
	in := exec.Command("unshare", append([]string{"--pid", "--fork", "--mount-proc", "--kill-child"}, cmd.Args...)...)
	in.Env, in.Dir = cmd.Env, cmd.Dir
	return w.start(in)
}

func (w *world) running(key string, flags, command []string) *exec.Cmd {
	args := append([]string{"run", "--key", key, "--json", "3"}, flags...)
	if w.name == "file" {
		args = append(args, "--scope", "host")
	}
	return w.command(dibsBinary, append(append(args, "--"), command...)...)
}

func (w *world) command(binary string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = w.environ(), w.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	return cmd
}

// start starts a command. What it prints goes to files, which children may keep open for as long
// as they like; descriptor 3 is a file for its result. Files that the command names itself it keeps.
func (w *world) start(cmd *exec.Cmd) *process {
	w.t.Helper()
	p := &process{Cmd: cmd, t: w.t, out: filepath.Join(w.dir, "out-"+rand.Text()), ended: make(chan struct{})}
	var files []*os.File
	for _, name := range []string{".stdout", ".stderr", ".json"} {
		f, err := os.Create(p.out + name)
		if err != nil {
			w.t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = files[0], files[1]
	}
	if cmd.ExtraFiles == nil {
		cmd.ExtraFiles = files[2:]
	}
	if err := launch(cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		p.endedAt = time.Now()
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// launch starts a command that dies with this process, should that be killed: the signal comes at the
// end of the thread that started it, so that is one that stays for ever.
func launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	launching.Do(func() {
		go func() {
			runtime.LockOSThread()
			for c := range launches {
				c.done <- c.cmd.Start()
			}
		}()
	})
	l := toLaunch{cmd, make(chan error)}
	launches <- l
	return <-l.done
}

type toLaunch struct {
	cmd  *exec.Cmd
	done chan error
}

var (
	launching sync.Once
	launches  = make(chan toLaunch)
)

// wait returns the exit status, 128+n for a signal.
func (p *process) wait(bound time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(bound):
		p.t.Fatalf("still running after %s: %s", bound, p)
	}
	if ws := p.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ProcessState.ExitCode()
}

// exits checks the exit status.
func (p *process) exits(want int, bound time.Duration) *process {
	p.t.Helper()
	if got := p.wait(bound); got != want {
		p.t.Fatalf("exit status %d, want %d: %s", got, want, p)
	}
	return p
}

// says checks that standard error contains each text.
func (p *process) says(texts ...string) *process {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.stderr(), text) {
			p.t.Errorf("does not say %q: %s", text, p)
		}
	}
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %s: %v", s, p, err)
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) file(suffix string) string {
	b, err := os.ReadFile(p.out + suffix)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

func (p *process) stdout() string { return p.file(".stdout") }
func (p *process) stderr() string { return p.file(".stderr") }

// result is what `dibs run --json` says.
type result struct {
	Key, Outcome, Reason string
	RunID                string `json:"run_id"`
	Token                int64
	Tick                 time.Time
	ExitStatus           int `json:"exit_status"`
	HeldBy               *struct {
		Host string
		PID  int
	} `json:"held_by"`
	Started, Ended time.Time
}

func (p *process) result() (r result) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.file(".json")), &r); err != nil {
		p.t.Fatalf("the result: %v: %s", err, p)
	}
	return r
}

// String shows all there is to know of a failure.
func (p *process) String() string {
	return fmt.Sprintf("%s\n--- standard output\n%s--- standard error\n%s--- result\n%s", strings.Join(p.Args, " "), p.stdout(), p.stderr(), p.file(".json"))
}

// must runs dibs, which must succeed, and returns what it prints. On a slow machine the writers of a directory can
// keep the database for as long as a command waits for it: nothing is done then, and it says so.
func (w *world) must(args ...string) string {
	w.t.Helper()
	for until := time.Now().Add(patience); ; {
		p := w.dibs(args...)
		if p.wait(patience) == 69 && strings.Contains(p.stderr(), "another process has been writing to the database") && time.Now().Before(until) {
			continue
		}
		return p.exits(0, patience).stdout()
	}
}
