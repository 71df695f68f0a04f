package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	ossignal "os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/lease"
)

// CgroupFor returns the path of the control group that a run under this lease will have; "" if none can be created.
// Put it into lease.Holder before you acquire the lease, so that other processes can prove that the work is gone
// (rule L6). If DIBS_CGROUP=off is in this process's environment, there is none. Start creates the group.
func CgroupFor(key lease.Key, runID string) string {
	if runID == "" {
		return ""
	}
	return CgroupNamed(string(key), key, runID)
}

// CgroupNamed is like CgroupFor, for a run whose Spec has a Name.
func CgroupNamed(name string, key lease.Key, runID string) string {
	if s := scopes.Load(); s != nil {
		return s.cgroup(name, key, runID)
	}
	return cgroup.For(bound(key, runID))
}

// Start starts a guardian and, below it, the command. When it returns without an error, the command has been
// executed, or may have been if the guardian was killed just then: the Process has ended, and its Exit says so. An
// error is a *StartError: the command was not executed, and nothing is left. Start is safe for concurrent use.
func Start(s Spec) (*Process, error) {
	if err := s.check(); err != nil {
		return nil, &StartError{StatusFault, fmt.Sprint(s.Args), err}
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	name := s.Args[0]
	path, err := lookUp(name, s.Dir, s.Env)
	if err != nil {
		return nil, startError(name, err)
	}
	if err := equipped(); err != nil {
		return nil, &StartError{StatusFault, name, err}
	}
	p, err := s.guarded(path)
	if err != nil {
		return nil, err
	}
	if s.Renewed != nil {
		s.Deadline = s.Renewed()
	}
	return p.begin(s, path)
}

// begin has the guardian start the command.
func (p *Process) begin(s Spec, path string) (*Process, error) {
	name := s.Args[0]
	if err := p.arm(s); err != nil {
		p.abandon()
		if errors.Is(err, errGuardianGone) {
			err = fmt.Errorf("%w: %w", errUnborn, err)
		}
		return nil, &StartError{StatusFault, name, err}
	}
	m, err := p.answer(s.Deadline.Kill)
	if err == nil && m.Kind == guardian.Started {
		p.pid, p.guardian = int(m.Value), helperOf(int(m.Guardian))
		p.bounds.open(p.enforce)
		go p.watch()
		return p, nil
	}
	if errors.Is(err, io.EOF) {
		p.awaitWarden() // which kills what the guardian has left, and knows how that ended
	}
	said, how := p.abandon()
	if said == (guardian.Message{}) {
		said = m
	}
	switch said.Kind {
	case guardian.Failed:
		return nil, startError(name, missing(path, s.Dir, syscall.Errno(said.Value)))
	case guardian.Starting, guardian.Started:
		p.endUnheard(s.Deadline, fmt.Errorf("the command may have run, and was killed: its guardian did not say that it had started (%s): %w", how, err))
		return p, nil
	}
	return nil, &StartError{StatusFault, name, fmt.Errorf("the guardian did not start the command (%s): %w", how, err)}
}

// startTime bounds how long an exec may hang (on a dead file server) where no deadline does.
const startTime = time.Minute

// answer waits for the guardian to say whether the command was executed, at most until the deadline. With an error it
// returns what the guardian said last.
func (p *Process) answer(kill time.Duration) (last guardian.Message, err error) {
	ready := p.guardian.pid != 0 // it has said so: see enter
	for {
		m, err := p.first(kill)
		switch {
		case !ready && errors.Is(err, io.EOF):
			return last, fmt.Errorf("%w: %w", errUnborn, err)
		case err != nil:
			return last, err
		}
		ready = true
		if last = m; m.Kind != guardian.Waiting && m.Kind != guardian.Starting {
			return last, nil
		}
	}
}

// first waits for the guardian's next message while it starts. It continues processes that were stopped before that.
func (p *Process) first(kill time.Duration) (guardian.Message, error) {
	if latest := clock.System.Boot() + startTime; kill == 0 || kill > latest {
		kill = latest
	}
	for {
		_ = p.sock.SetReadDeadline(time.Now().Add(min(patience/4, max(kill-clock.System.Boot(), 0))))
		m, err := p.receive()
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			_ = p.sock.SetReadDeadline(time.Time{})
			return m, err
		case clock.System.Boot() >= kill:
			return m, fmt.Errorf("it has not answered by the deadline: %w", syscall.ETIME)
		}
		p.warden.signal(syscall.SIGCONT)
		for _, s := range (guardian.Tree{Root: p.warden.pid}).Living() {
			if s.Parent == p.warden.pid { // the guardian
				_ = syscall.Kill(s.PID, syscall.SIGCONT)
			}
		}
	}
}

// equipped finds what guards need and a minimal chroot or jail may not have.
func equipped() error {
	if err := unix.Access("/proc/self/exe", unix.F_OK); err != nil {
		return fmt.Errorf("/proc is not mounted; dibs needs it to guard commands: mount it (%w)", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return os.NewSyscallError("open "+os.DevNull, err)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be opened; dibs needs it: make it (%w)", os.DevNull, err)
	}
	return unix.Close(null)
}

// check finds what is wrong before anything is started.
func (s Spec) check() error {
	switch {
	case !guardian.Ready():
		return errors.New("this program cannot start guardians; call command.GuardianMain first in main (in tests, in TestMain)")
	case len(s.Args) == 0:
		return errors.New("there is no command")
	case s.RunID == "" || strings.ContainsAny(s.RunID, "/:\x00\n"):
		return fmt.Errorf("%q is no run id; it must not be empty, nor contain slashes and colons", s.RunID)
	}
	if s.Umask != nil && (*s.Umask < 0 || *s.Umask > 0o777) {
		return fmt.Errorf("umask %#o: want 0 to 0777", *s.Umask)
	}
	if slices.ContainsFunc(s.Descriptors, func(fd int) bool { return fd < 3 }) {
		return fmt.Errorf("descriptors %v: want numbers above 2", s.Descriptors)
	}
	if s.Nice < -20 || s.Nice > 19 {
		return fmt.Errorf("nice %d: want -20 to 19", s.Nice)
	}
	if s.Nice < 0 && os.Geteuid() != 0 {
		return fmt.Errorf("nice %d: only root can make a command more important than others", s.Nice)
	}
	if s.User != nil {
		if err := s.User.check(); err != nil {
			return err
		}
	}
	if s.Dir != "" {
		info, err := os.Stat(s.Dir)
		if err != nil {
			return fmt.Errorf("the working directory: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("the working directory: %s is a file", s.Dir)
		}
	}
	return nil
}

// guard starts the warden, and this the guardian, which then waits to be armed. The run is to have a control group,
// unless that is "".
func (s Spec) guard(path, group string) (*Process, error) {
	name := s.Args[0]
	if s.ungrouped {
		group = ""
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, &StartError{StatusFault, name, fmt.Errorf("make the guardian's connection: %w", err)}
	}
	ours := os.NewFile(uintptr(pair[0]), "guardian")
	theirs := os.NewFile(uintptr(pair[1]), "supervisor")
	defer theirs.Close()

	p := &Process{locks: len(s.Locks) > 0, hold: s.HoldLocks, run: s.RunID, cgroup: group, sock: ours, terminal: s.terminal(),
		exited: make(chan Exit, 1), empty: make(chan struct{}), reaped: make(chan struct{})}
	p.modes = modesOf(p.terminal)
	files, closeNull, err := s.files(theirs)
	if err == nil {
		defer closeNull()
		argv := append([]string{guardian.Warden, s.RunID, orDash(p.cgroup), guardian.Numbers(s.descriptors()), strconv.Itoa(len(s.Locks)), path}, s.Args...)
		own := &syscall.SysProcAttr{Setsid: p.terminal == nil, Setpgid: p.terminal != nil}
		var pid int
		pid, err = forkWarden(argv, &syscall.ProcAttr{Dir: s.Dir, Env: withRun(s.Env, s.Key, s.RunID), Files: files, Sys: own})
		p.warden = helperOf(pid)
	}
	if err != nil {
		ours.Close()
		if errors.Is(err, syscall.E2BIG) {
			return nil, startError(name, err) // the command's own arguments are too long
		}
		return nil, &StartError{StatusFault, name, fmt.Errorf("start the guardian: %w", err)}
	}
	return p, nil
}

// files lists the descriptors of the guardian in order.
func (s Spec) files(sock *os.File) (fds []uintptr, closeNull func(), err error) {
	var null *os.File
	closeNull = func() { _ = null.Close() }
	for _, f := range []*os.File{s.Stdin, s.Stdout, s.Stderr} {
		if f == nil {
			if null == nil {
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return nil, closeNull, err
				}
			}
			f = null
		}
		fds = append(fds, f.Fd())
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, closeNull, err
	}
	// Not sock.Fd, which would make it blocking.
	if err := raw.Control(func(fd uintptr) { fds = append(fds, fd) }); err != nil {
		return nil, closeNull, err
	}
	for _, f := range s.Locks {
		fds = append(fds, f.Fd())
	}
	for _, fd := range s.descriptors() {
		fds = append(fds, uintptr(fd))
	}
	return fds, closeNull, nil
}

// descriptors are what the command inherits besides: another user's has none that this one's caller opened.
func (s Spec) descriptors() []int {
	if s.User != nil {
		return nil
	}
	return s.Descriptors
}

// arm makes the run's control group, while the guardian is still initialising, and tells it to begin.
func (p *Process) arm(s Spec) error {
	if p.cgroup != "" {
		if err := os.Mkdir(p.cgroup, 0o755); err != nil {
			// The lease's holder may name it already, so doing without would make its
			// absence a false proof that the work is gone.
			return fmt.Errorf("make the run's control group (DIBS_CGROUP=off disables it): %w", err)
		}
		p.madeCgroup = true
	}
	if err := p.bounds.prepare(s.Deadline); err != nil {
		return err
	}
	m := guardian.Message{Kind: guardian.Arm, Term: s.Deadline.Term, Kill: s.Deadline.Kill,
		Leftovers: s.Leftovers, Grace: s.LeftoverGrace, Locks: byte(len(s.Locks)), Hold: s.HoldLocks,
		Umask: -1, Nice: int8(s.Nice)}
	if s.Umask != nil {
		m.Umask = int32(*s.Umask)
	}
	if p.terminal != nil {
		m.Foreground = int32(unix.Getpgrp())
		ossignal.Ignore(unix.SIGTTOU) // in the background this process is to print, and to take the terminal back
	}
	if s.User != nil {
		m.As = guardian.Identity{Set: true, UID: s.User.UID, GID: s.User.GID}
		m.As.Groups = byte(copy(m.As.Group[:], s.User.Groups))
	}
	return p.send(m)
}

// receive reads the guardian's next message; io.EOF once it has ended.
func (p *Process) receive() (guardian.Message, error) {
	var b [guardian.MessageSize]byte
	n, err := p.sock.Read(b[:])
	if errors.Is(err, unix.ECONNRESET) {
		// It ended with a message of ours unread, which is told before what it said last.
		n, err = p.sock.Read(b[:])
	}
	if err != nil {
		return guardian.Message{}, err
	}
	if n == 0 {
		return guardian.Message{}, io.EOF
	}
	return guardian.Decode(b[:n])
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
