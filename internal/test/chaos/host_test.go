//go:build linux

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	quietFlag  = "quiet"  // in a host's directory: cron starts nothing
	unreadFlag = "unread" // nobody reads the logs
)

// groupsOff has dibs make no control groups.
const groupsOff = "DIBS_CGROUP=off"

// A host is what the test holds of one.
type host struct {
	name, dir string
	wire      string // the test's end of it
	cmd       *exec.Cmd
	orders    io.WriteCloser
	store     *proxy // nil where there is no network store
	grouped   bool   // its runs have control groups
}

// launches start the processes that die with the test: a death signal is tied to the thread that forked.
var launches = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for f := range launches {
			f()
		}
	}()
}

func launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	launches <- func() { started <- cmd.Start() }
	return <-started
}

// startHost starts the host of a number, from 1, with a wire of its own and a proxy to the store at its other end.
func startHost(dir string, n int, target string, spec hostSpec) (h *host, err error) {
	h = &host{name: spec.Name, dir: filepath.Join(dir, spec.Name), wire: fmt.Sprintf("chaos%d", n),
		grouped: os.Getenv(groupEnv) != "" && !slices.Contains(spec.Env, groupsOff)}
	spec.Dir = h.dir
	if err := os.MkdirAll(filepath.Join(h.dir, "dibs"), 0o755); err != nil {
		return nil, err
	}
	told, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(h.dir, "host.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	h.cmd = exec.Command(self, "host", string(told))
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.Env = cleanEnvironment()
	if h.orders, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS}
	if err := launch(h.cmd); err != nil {
		return nil, err
	}
	pid := strconv.Itoa(h.cmd.Process.Pid)
	for _, args := range [][]string{
		{"link", "add", h.wire, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"addr", "add", spec.Peer + "/30", "dev", h.wire},
		{"link", "set", h.wire, "up"},
	} {
		if err := command("ip", args...); err != nil {
			return h, err
		}
	}
	if target != "" {
		if h.store, err = newProxy(spec.Peer+":6000", target); err != nil {
			return h, err
		}
	}
	return h, h.order("begin")
}

func (h *host) order(word string) error {
	_, err := fmt.Fprintln(h.orders, word)
	return err
}

// kill ends a host with everything in it.
func (h *host) kill() {
	_ = h.cmd.Process.Kill() // it may have ended
	_ = h.cmd.Wait()
	if h.store != nil {
		h.store.close()
	}
	_ = exec.Command("ip", "link", "del", h.wire).Run() // it normally went with the host
}

// cleanEnvironment has nothing of dibs's own settings, nor of the test's.
func cleanEnvironment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DIBS_") && !strings.HasPrefix(e, "GO") {
			env = append(env, e)
		}
	}
	return env
}

func (h *host) procs() []proc { return family(h.cmd.Process.Pid) }

func (h *host) flag(name string, set bool) {
	path := filepath.Join(h.dir, name)
	if !set {
		_ = os.Remove(path) // it may not be there
	} else if f, err := os.Create(path); err == nil {
		_ = f.Close()
	}
}

// disk is the host's small file system, seen from outside.
func (h *host) disk() string {
	return filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), "root", h.dir, "dibs")
}

// An initNote is a line of the init's log.
type initNote struct {
	at         time.Duration
	name, what string
	pid        int
}

func (h *host) notes() (notes []initNote) {
	f, err := os.Open(filepath.Join(h.dir, "init.log"))
	if err != nil {
		return nil // it has not begun
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), " ", 4)
		if len(parts) < 4 {
			continue
		}
		at, _ := strconv.ParseInt(parts[0], 10, 64) // the init wrote it
		pid, _ := strconv.Atoi(parts[2])
		notes = append(notes, initNote{time.Duration(at), parts[1], parts[3], pid})
	}
	return notes
}

// fill writes until a file system is full; the file's removal is the cure.
func fill(dir string) (heal func(), err error) {
	path := filepath.Join(dir, "fill")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 1<<20)
	for size := len(b); size > 0; { // ever smaller pieces, so that nothing is left
		if _, err := f.Write(b[:size]); err != nil {
			size /= 2
		}
	}
	return func() { _ = os.Remove(path) }, f.Close()
}
