package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// A Target runs a command for each attempt, under the kill chain.
type Target struct {
	// Args, Dir and Env are like Spec's. If Env is nil, the command gets this process's own environment without the
	// store's address.
	Args []string
	Dir  string
	Env  []string
	// User, Umask and Nice are like Spec's. The command of a User gets its HOME, USER and LOGNAME, unless ExtraEnv
	// has others.
	User  *User
	Umask *int
	Nice  int
	// ExtraEnv is added to Env.
	ExtraEnv []string
	// Leftovers and LeftoverGrace are like Spec's.
	Leftovers     Leftovers
	LeftoverGrace time.Duration
	// Enter, if not nil, gives the command variables for as long as it runs.
	Enter Entrance
	// Stdio lets the command inherit this process's standard input, output and error. Otherwise it reads Input, and
	// its output goes to Call.Output.
	Stdio bool
	// Stdout and Stderr, with Stdio, replace this process's own. Attempt closes them once the command has them.
	// Default: this process's own.
	Stdout, Stderr *os.File
	// Descriptors and Foreground, with Stdio, are like Spec's. Attempt closes the descriptors once the command has
	// them: a Target with some is good for one attempt.
	Descriptors []int
	Foreground  bool
	// Input, without Stdio, is the command's standard input. Default: none.
	Input []byte
	// Signals are forwarded to the command's process group while it runs. Default: none.
	Signals <-chan os.Signal
	// OnLeftovers, if not nil, is called with the main process's exit status and the pids of processes that still run
	// LeftoversAfter after its end (rule L7), on a goroutine of its own. Default 10 s.
	OnLeftovers    func(status int, pids []int)
	LeftoversAfter time.Duration
	// OnStuck, if not nil, makes Attempt wait for processes of earlier runs of the lease's key on this host that
	// SIGKILL has not ended, since they hang in the kernel (rule L6). It is called with their pids when the wait
	// begins, on a goroutine of its own. Under a lock of the directory there is nothing to wait for.
	OnStuck func(pids []int)
}

// An Entrance is called when a command is about to start as a user; nil is this process's own. It returns variables
// for the command's environment, and leave, which is called when the command is gone and closes whatever the
// variables lead to. Both return at once. An Entrance is safe for concurrent use.
type Entrance func(*User) (env []string, leave func())

// enter calls an Entrance, where there is one.
func (e Entrance) enter(u *User) (env []string, leave func()) {
	if e == nil {
		return nil, func() {}
	}
	return e(u)
}

// lookAgain is how often a loss is looked at again while the command ends.
const lookAgain = 100 * time.Millisecond

// leftoversAfter is the default of Target.LeftoversAfter.
const leftoversAfter = 10 * time.Second

// Attempt runs the command, and returns when it and everything that it started are gone.
func (t Target) Attempt(ctx context.Context, c run.Call) run.Result {
	if r, ended := t.awaitStuck(ctx, c); ended {
		closeLock(c)
		return r
	}
	out, err := t.output(c.Output)
	if err != nil {
		return fault(c, err)
	}
	given, leave := t.Enter.enter(t.User)
	defer leave()
	p, err := Start(t.spec(c, out, given))
	out.started()
	closeLock(c)
	if err == nil {
		for _, fd := range t.Descriptors {
			_ = syscall.Close(fd)
		}
	}
	if err != nil {
		out.wait()
		return startResult(err)
	}
	defer p.follow(c.Lease)()
	if c.Detach != nil {
		if err := c.Detach(); err != nil {
			p.Kill()
			c.Detach = nil
		}
	}
	e := t.attend(ctx, p, c)
	out.wait()
	r := e.result()
	if t.Leftovers == Leave {
		r.Err = waived(r.Err, p.remains())
	}
	r.Recorded = func() { p.Release(); <-p.Reaped() }
	return r
}

func closeLock(c run.Call) {
	if c.Lock != nil {
		c.Lock.Close()
	}
}

// stuckPause is the time between looks at processes that nobody could kill.
const stuckPause = 250 * time.Millisecond

// awaitStuck waits until nothing is left on this host of earlier runs of the key. Their leases have expired: this
// run's lease keeps all others away meanwhile. If it is ended before that, it returns the result.
func (t Target) awaitStuck(ctx context.Context, c run.Call) (r run.Result, ended bool) {
	for told := false; t.OnStuck != nil && c.Lock == nil; told = true { // a lock is the work's own as long as it lives
		pids := stuck(c.Lease.Ref().Key, c.Run.ID)
		if len(pids) == 0 {
			return r, false
		}
		if !told {
			go t.OnStuck(pids)
		}
		r = run.Result{Outcome: run.Failed, Status: StatusFault, Stopped: true,
			Err: fmt.Errorf("not started: processes of an earlier run survive SIGKILL: %v", pids)}
		select {
		case sig := <-t.Signals:
			if s, ok := sig.(syscall.Signal); ok && ends(s) {
				return run.Result{Outcome: run.Canceled, Status: 128 + int(s), Err: r.Err}, true
			}
		case <-c.Lease.Lost():
			return r, true
		case <-ctx.Done():
			return r, true
		case <-time.After(stuckPause):
		}
	}
	return r, false
}

func fault(c run.Call, err error) run.Result {
	closeLock(c)
	return startResult(err)
}

func (t Target) spec(c run.Call, out *output, given []string) Spec {
	deadline := func() Deadline {
		term, kill := c.Lease.Deadlines()
		return Deadline{Term: term, Kill: kill}
	}
	s := Spec{Args: t.Args, Dir: t.Dir, Env: t.environment(c, given), RunID: c.Run.ID, Key: c.Lease.Ref().Key, Name: c.Run.Job,
		User: t.User, Umask: t.Umask, Nice: t.Nice,
		Stdin: out.stdin, Stdout: out.stdout, Stderr: out.stderr,
		Deadline: deadline(), Renewed: deadline,
		Leftovers: t.Leftovers, LeftoverGrace: t.LeftoverGrace}
	if t.Stdio {
		s.Descriptors, s.Foreground = t.Descriptors, t.Foreground
	}
	if c.Lock != nil {
		s.Locks = []*os.File{c.Lock}
		s.HoldLocks = true
	}
	return s
}

// environment adds what a command is given and told about its run, and takes away the store's address,
// which may hold a password (rule H3). Of two values of a variable the later one counts.
func (t Target) environment(c run.Call, given []string) []string {
	env := t.Env
	if env == nil {
		env = os.Environ()
	}
	env = withoutOuterRun(WithoutStore(env))
	if t.User != nil {
		env = append(env, t.User.environment()...)
	}
	env = append(append(env, given...), t.ExtraEnv...)
	env = append(env,
		"DIBS_KEY="+c.Run.Job,
		"DIBS_TOKEN="+strconv.FormatInt(int64(c.Run.Token), 10),
		"DIBS_ATTEMPT="+strconv.Itoa(c.Attempt),
		"DIBS_IDEMPOTENCY_KEY="+c.IdempotencyKey)
	if at := c.Run.Scheduled(); !at.IsZero() {
		env = append(env, "DIBS_TICK="+at.UTC().Format(time.RFC3339))
	}
	switch {
	case c.PreviousUnknown:
		env = append(env, "DIBS_PREVIOUS_SUCCESS_UNKNOWN=1")
	case !c.PreviousSuccess.IsZero():
		env = append(env, "DIBS_PREVIOUS_SUCCESS="+c.PreviousSuccess.UTC().Format(time.RFC3339))
	}
	// One that shares our standard files is part of whatever called us, and of its trace.
	if !t.Stdio || !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TRACEPARENT=") }) {
		env = append(env, "TRACEPARENT="+c.TraceParent())
	}
	return lastOfEach(env)
}

// withoutOuterRun takes away what a run within which this one was started was told of its own job: this one's may have
// no such thing.
func withoutOuterRun(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "DIBS_TICK" || name == "DIBS_PREVIOUS_SUCCESS" || name == "DIBS_PREVIOUS_SUCCESS_UNKNOWN"
	})
}

// WithoutStore returns env without the address of a store, and without the way to the store of an outer run.
func WithoutStore(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "DIBS_STORE=") || strings.HasPrefix(v, "DIBS_STORE_VIA=")
	})
}

// lastOfEach keeps the last value of each variable: with two of them, which one a program finds
// depends on its language.
func lastOfEach(env []string) []string {
	last := map[string]int{}
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	var out []string
	for i, v := range env {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			out = append(out, v)
		}
	}
	return out
}

// follow has each renewal of the lease move the guardian's deadline, until done is called.
func (p *Process) follow(l *lease.Lease) (done func()) {
	extend := func() {
		term, kill := l.Deadlines()
		_ = p.Extend(Deadline{Term: term, Kill: kill}) // a dead guardian is seen by Exited
	}
	done = l.OnRenew(extend)
	extend()
	return done
}

// ending is how a command came to its end.
type ending struct {
	Exit
	forwarded os.Signal // the last one
	stopped   bool      // it was told to stop while the main process lived
}

// attend waits for the command to be gone, and stops it when ctx ends or its lease is lost.
func (t Target) attend(ctx context.Context, p *Process, c run.Call) (e ending) {
	var late, again <-chan time.Time
	done, lost, exited := ctx.Done(), c.Lease.Lost(), p.Exited()
	ended := func(x Exit) {
		e.Exit, exited = x, nil
		e.stopped = e.stopped || x.ByDeadline
		if sig := p.typed(x); sig != nil && e.forwarded == nil {
			e.forwarded = sig
		}
		late = time.After(cmp.Or(t.LeftoversAfter, leftoversAfter))
	}
	// The main process's own end fixes the outcome (rule L7), also where it is heard of only now.
	stopping := func() {
		select {
		case x := <-exited:
			ended(x)
		default:
			e.stopped = e.stopped || exited != nil
		}
	}
	for {
		select {
		case x := <-exited:
			ended(x)
		case <-late:
			if pids := p.Leftovers(); len(pids) > 0 && t.OnLeftovers != nil {
				go t.OnLeftovers(e.Status, pids) // beside: a loss must find nobody busy here
			}
		case sig := <-t.Signals:
			e.forwarded = sig
			if s, ok := sig.(syscall.Signal); ok {
				_ = p.Signal(s)
			}
		case <-lost:
			lost = nil
			stopping()
			p.lose(c.Lease.Loss())
			again = time.After(lookAgain)
		case <-again:
			// After silence a refusal may come, which leaves no grace (rule L2).
			if again = nil; c.Lease.Loss().Kill == 0 {
				p.Kill()
			} else {
				again = time.After(lookAgain)
			}
		case <-done:
			done = nil
			if !errors.Is(context.Cause(ctx), lease.ErrLost) {
				stopping()
				p.Stop(c.StopGrace)
			}
		case <-p.Empty():
			if exited != nil {
				ended(<-exited)
			}
			return e
		}
	}
}

// lose stops the command within what is left of the lease's margin (rule L2).
func (p *Process) lose(loss lease.Loss) {
	if loss.Kill == 0 {
		p.Kill()
		return
	}
	p.Stop(max(loss.Kill-clock.System.Boot(), 0))
}

func startResult(err error) run.Result {
	r := run.Result{Outcome: run.Failed, Status: StatusFault, Err: err, Final: true}
	if HostFault(err) {
		r.Outcome = run.Unavailable
	}
	var start *StartError
	if errors.As(err, &start) {
		r.Status = start.Status
	}
	return r
}

// result is the outcome by the command's own end; where it was stopped, the context's cause overrules it.
func (e ending) result() run.Result {
	r := run.Result{Outcome: run.Failed, Status: e.Status, Stopped: e.stopped}
	switch {
	case e.Err != nil:
		r.Err = e.Err
	case e.Status == 0 && e.stopped:
		r.Outcome, r.Err = run.Succeeded, errors.New("stopped; then it exited with status 0")
	case e.Status == 0:
		r.Outcome = run.Succeeded
	case ends(e.forwarded):
		r.Outcome, r.Err = run.Canceled, fmt.Errorf("signal: %s", e.forwarded)
	case e.Signal != 0:
		r.Err = fmt.Errorf("killed by signal: %s", e.Signal)
	default:
		r.Err = fmt.Errorf("exit status %d", e.Status)
	}
	return r
}

// waived adds to the record of an attempt that processes of it go on without the lease, as leftovers
// "leave" has it (rule L7).
func waived(err error, pids []int) error {
	if len(pids) == 0 {
		return err
	}
	left := fmt.Errorf("left alone, outside of the lease (leftovers: leave): processes %v", pids)
	if err == nil {
		return left
	}
	return fmt.Errorf("%w; %w", err, left)
}

// ends reports whether a signal asks a command to end.
func ends(sig os.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGHUP
}
