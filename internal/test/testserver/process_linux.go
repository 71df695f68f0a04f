package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// scratch is where a test's own servers keep their data: in memory where there is plenty. What they lose with
// the power is tested nowhere, while ten of them that are installed at once can hold up all other servers' disk
// for seconds.
func scratch() string {
	const dir, plenty = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || uint64(fs.Bsize)*fs.Bavail < plenty || fs.Flags&syscall.MS_RDONLY != 0 {
		return ""
	}
	return dir
}

// account is whom a server runs as: PostgreSQL refuses root.
type account struct{ credential *syscall.Credential }

func accountFor(name string) (account, error) {
	if name == "" || os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("we are root and the server must not be: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, err
}

func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: a.credential}
	if a.credential != nil {
		// The tools look at the environment for a home and a user that are no longer theirs.
		cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "USER=", "LOGNAME=")
	}
}

// process is a running server: the process that we started and all its descendants.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it is reaped
}

var (
	spawnOnce sync.Once
	spawns    = make(chan func())
)

// spawn starts cmd so that it dies with this process. The kernel ties the death signal to the
// THREAD that forked, so one thread, locked for ever, forks them all.
func spawn(cmd *exec.Cmd, as account) (*process, error) {
	spawnOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range spawns {
				f()
			}
		}()
	})
	as.apply(cmd)
	started := make(chan error)
	spawns <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// stopAll stops the parent first, so that it forks no more, and then whoever is there, until
// nobody new is found.
func (p *process) stopAll() error {
	seen := map[int]bool{}
	for {
		fresh := 0
		for _, pid := range family(p.cmd.Process.Pid) {
			if !seen[pid] {
				seen[pid], fresh = true, fresh+1
				if err := signal(pid, syscall.SIGSTOP); err != nil {
					return err
				}
			}
		}
		if fresh == 0 {
			return p.awaitStopped(seen)
		}
	}
}

// awaitStopped waits until the kernel has stopped them all: the signal alone is only a request.
func (p *process) awaitStopped(pids map[int]bool) error {
	deadline := time.Now().Add(10 * time.Second)
	for pid := range pids {
		for !strings.ContainsRune("TZX", state(pid)) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not stop", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (p *process) contAll() error {
	for _, pid := range family(p.cmd.Process.Pid) {
		if err := signal(pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// killAll returns when all are gone. They are stopped first, lest one forks while we look.
func (p *process) killAll() {
	_ = p.stopAll() // a race with its own end: nothing is left to stop then
	pids := family(p.cmd.Process.Pid)
	for _, pid := range pids {
		_ = signal(pid, syscall.SIGKILL)
	}
	<-p.done
	for _, pid := range pids {
		for !strings.ContainsRune("ZX", state(pid)) {
			time.Sleep(time.Millisecond)
		}
	}
}

func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("signal %s to process %d: %w", s, pid, err)
	}
	return nil
}

// family is pid and its descendants, parents first. PostgreSQL's children leave the process
// group, so a signal to the group would miss them.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range stats {
		if child, parent, ok := parentage(path); ok {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

func parentage(path string) (pid, parent int, ok bool) {
	f := stat(path)
	if len(f) < 2 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
	if err != nil {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(f[1])
	return pid, parent, err == nil
}

// state is a process's letter in /proc, X when there is none.
func state(pid int) rune {
	if f := stat(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 0 {
		return rune(f[0][0])
	}
	return 'X'
}

// stat is the fields after the command's name, which may itself contain blanks and brackets.
func stat(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil // it ended while we looked
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// detach keeps a terminal's interrupt, which goes to our whole group, from the janitor.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
