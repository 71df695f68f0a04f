package guardian

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// Main turns this process into a warden, a guardian or an usher if it was started as one, and then never returns. The
// zeroth argument is the caller's to choose, so the rights come first.
func Main() {
	ready = true
	if len(os.Args) > 0 && (os.Args[0] == Warden || os.Args[0] == Name || os.Args[0] == usher) {
		RefuseOthersRights()
	}
	switch {
	case len(os.Args) >= 7 && os.Args[0] == Warden:
		end(ward(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]))
	case len(os.Args) >= 6 && os.Args[0] == Name:
		end(serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]))
	case len(os.Args) >= 5 && os.Args[0] == usher:
		show(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	}
}

func end(err error) {
	_ = syscall.Kill(os.Getppid(), syscall.SIGCONT) // a warden that was stopped is to end as well

	if err != nil {
		_, _ = os.Stderr.WriteString(os.Args[0] + ": " + err.Error() + " (it is started by dibs itself, not by hand)\n")
		os.Exit(fault)
	}
	os.Exit(0)
}

// A guard is the state of a guardian. Two goroutines share it: one starts the command, reaps
// and ends the process when nothing is left; the other listens and keeps the deadline.
type guard struct {
	timer  int    // a timerfd on the boot clock, which unlike Go's timers goes on in suspend
	alarms alarms // for when this process is stopped
	cgroup string // "" without one
	policy Leftovers
	grace  time.Duration
	locks  []int
	given  []given // what the command inherits besides
	arm    Message // the command, its user and its limits

	mu    sync.Mutex
	main  int  // the command's pid, 0 before it was started
	ended bool // the main process was reaped, and its number may be another's
	empty bool // nothing of the command is left
	// term, kill and stop are the boot instants of the SIGTERM, of the SIGKILL, and of the kill that follows a Stop;
	// zero once done.
	term, kill, stop time.Duration
	patience         time.Duration // LastResort of term and kill
	termed           bool          // the deadline has passed
	told             Told          // who was sent TERM
	byDeadline       bool          // … while the main process lived
	overdue          bool          // … and the time to kill as well
	doomed           bool          // everything is being killed
	rounds           int           // how often so far

	hold     bool // the locks are kept until freed
	freed    chan struct{}
	freeOnce sync.Once
}

func serve(cgroupPath, numbers, path string, args []string) error {
	// The command dies with the thread that started it (PDEATHSIG is per thread,
	// golang/go#27505). This is the main thread, and it stays until the process ends.
	runtime.LockOSThread()
	ignoreSignals()
	// Nothing but what the command is given below is to reach it.
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := prctl(prSetSubreaper, 1); err != nil {
		return err
	}
	rename(Name)
	_ = prctl(prSetDeathSignal, uintptr(syscall.SIGCONT)) // the warden's death is to be seen
	alarms, err := newAlarms()
	if err != nil {
		return err
	}
	timer, err := newTimer()
	if err != nil {
		return err
	}
	_ = send(Message{Kind: Waiting, Guardian: int64(os.Getpid())})
	arm, err := awaitArm()
	if err != nil {
		return err
	}
	g := &guard{timer: timer, alarms: alarms, policy: arm.Leftovers, grace: arm.Grace, term: arm.Term, kill: arm.Kill, patience: LastResort(arm.Term, arm.Kill),
		hold: arm.Hold, freed: make(chan struct{}), arm: arm, told: Told{}}
	if cgroupPath != "-" {
		g.cgroup = cgroupPath
	}
	for i := range int(arm.Locks) {
		g.locks = append(g.locks, Socket+1+i)
	}
	if g.given, err = parseGiven(numbers, Socket+2+len(g.locks)); err != nil {
		return err
	}
	// Before there is a command: watch may get to it only after this process was stopped.
	if err := g.setTimer(); err != nil {
		return err
	}
	go g.watch()
	if err := g.start(path, args); err != nil {
		g.removeCgroup()
		_ = send(Message{Kind: Failed, Value: int64(errnoOf(err))})
		return nil
	}
	g.reap()
	g.finish()
	return nil
}

// ignoreSignals keeps the guardian alive whatever is sent to it. The signals that are not listed are ignored by Go
// itself, or by the kernel, since the guardian's group is an orphan. It does not go through os/signal, which takes
// two switches of threads for each signal. ForkExec sets a signal that Go handles to its default in the command
// again; a signal that was ignored from the start (by nohup) stays ignored.
func ignoreSignals() {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		ignore(s)
	}
}

// start executes the command in a group, and where there is one a cgroup, of its own.
func (g *guard) start(path string, args []string) error {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: g.files(),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	if as := g.arm.As; as.Set {
		attr.Sys.Credential = &syscall.Credential{Uid: as.UID, Gid: as.GID, Groups: as.Group[:as.Groups]}
	}
	if g.arm.Umask >= 0 {
		syscall.Umask(int(g.arm.Umask)) // the guardian itself makes no files
	}
	if g.cgroup != "" {
		fd, err := syscall.Open(g.cgroup, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return syscall.EAGAIN // not the command's fault, whatever it is
		}
		defer syscall.Close(fd)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
	}
	if !g.inTime() {
		return syscall.ETIME
	}
	// The command may kill this process before it can tell that it has started it.
	if err := send(Message{Kind: Starting}); err != nil {
		return err // the supervisor has given up
	}
	// Not under the mutex: while an exec hangs (on a dead file server), the deadline is kept.
	pid, err := g.execute(path, args, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, which execvp(3) hands to the shell
		path, args = "/bin/sh", append([]string{"/bin/sh", path}, args[1:]...)
		pid, err = g.execute(path, args, attr)
	}
	if err != nil {
		return err
	}
	g.leaveTerminal(pid)
	if g.arm.Nice != 0 {
		// The guardian's own stays as it is: it has to be in time. What the command has started
		// before this is in its group.
		_ = syscall.Setpriority(syscall.PRIO_PGRP, pid, int(g.arm.Nice))
	}
	g.mu.Lock()
	g.main = pid
	late := g.termed
	g.mu.Unlock()
	if late { // the signal may have come before there was anybody to get it
		g.terminate()
	}
	_ = nullStdio()
	closeGiven(g.given)
	_ = send(Message{Kind: Started, Value: int64(pid), Guardian: int64(os.Getpid())})
	return nil
}

// inTime says whether the command may still be started.
func (g *guard) inTime() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := earliest(g.term, g.kill)
	return !g.termed && !g.doomed && (due == 0 || bootTime() < due)
}

// reap returns when this process has no children: then nothing of the command is left, for
// what its parent leaves behind comes to a subreaper.
func (g *guard) reap() {
	for {
		// First only look, so that the main process's number is not free before g knows.
		if errors.Is(awaitDead(0), syscall.ECHILD) {
			return
		}
		if g.reapDead() {
			g.mainEnded()
		}
	}
}

// reapDead reaps the children that are dead, and says whether the main process was among them.
func (g *guard) reapDead() (main bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		pid, ws := reapOne()
		if pid == 0 {
			return main
		}
		if pid == g.main && !g.ended {
			main, g.ended = true, true
			_ = send(Message{Kind: Exited, Value: int64(ws), ByDeadline: g.byDeadline})
		}
	}
}

// finish lets go of the locks and says so. Where the supervisor wants to record the outcome
// first, they stay until it has, has died, or is past its deadline.
func (g *guard) finish() {
	g.removeCgroup()
	g.mu.Lock()
	g.empty = true
	g.mu.Unlock()
	if !g.hold {
		g.unlock()
		_ = send(Message{Kind: Empty})
		return
	}
	_ = send(Message{Kind: Empty})
	<-g.freed
	g.unlock()
}

func (g *guard) unlock() {
	for _, fd := range g.locks {
		_ = syscall.Close(fd)
	}
}

// removeCgroup waits until the group is empty: other processes may have been moved into it.
func (g *guard) removeCgroup() {
	if g.cgroup == "" {
		return
	}
	for cgroup.Remove(g.cgroup) != nil {
		if populated, _, err := cgroup.Populated(g.cgroup); err != nil || !populated {
			return
		}
	}
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EIO
}
