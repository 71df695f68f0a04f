package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/run"
)

// A Brief is a short command beside the work, such as a condition or a hook. It has no lease, but a guardian like
// any command: it ends with this process, or at its Timeout, together with everything that it started, also
// processes in sessions of their own.
type Brief struct {
	// Args, Dir, Env, User, Umask and Nice are Spec's. The command of a User finds its HOME, USER and LOGNAME,
	// unless ExtraEnv, which is added to Env, says otherwise.
	Args          []string
	Dir           string
	Env, ExtraEnv []string
	User          *User
	Umask         *int
	Nice          int
	// Enter, if not nil, gives the command variables for as long as it runs.
	Enter Entrance
	// Input is the command's standard input. Nil: none.
	Input []byte
	// Timeout is how long the command may run. Then it is killed, without a SIGTERM before. Required.
	Timeout time.Duration
}

// maxPrinted is how many bytes of what a Brief prints are kept: the end.
const maxPrinted = 1000

// lingering is how long to wait for the processes that a Brief left behind, once they were killed: dibs may not be
// able to kill a process of another user.
const lingering = time.Second

// Run runs the command, and returns when it and everything that it started are gone. printed is the end of its
// output, at most 1000 bytes of text. The error says why the command did not exit with status 0, and is nil if it
// did. Run is safe for concurrent use.
func (b Brief) Run(ctx context.Context) (printed string, err error) {
	files, err := newPipes(b.Input)
	if err != nil {
		return "", err
	}
	given, leave := b.Enter.enter(b.User)
	defer leave()
	p, err := Start(b.spec(files, given))
	files.started()
	if err == nil {
		ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, b.tooLong())
		defer cancel()
		err = b.attend(ctx, p)
	}
	return files.close(), err
}

func (b Brief) tooLong() error {
	return fmt.Errorf("it took longer than %s, and was killed", b.Timeout)
}

// spec says what is started. Its run id is its own: by that of a run that it is about, what is left of that run
// is found and killed. The guardian keeps the time too, should this process be stopped.
func (b Brief) spec(files *pipes, given []string) Spec {
	env := slices.Clone(b.Env)
	if b.User != nil {
		env = append(env, b.User.environment()...)
	}
	env = append(append(env, given...), b.ExtraEnv...)
	deadline := func() Deadline { return Deadline{Kill: clock.System.Boot() + b.Timeout + lingering} }
	return Spec{Args: b.Args, Dir: b.Dir, Env: lastOfEach(env), User: b.User, Umask: b.Umask, Nice: b.Nice,
		RunID: run.NewID(), Stdin: files.stdin, Stdout: files.stdout, Stderr: files.stdout, Leftovers: Kill,
		Deadline: deadline(), Renewed: deadline}
}

func (b Brief) attend(ctx context.Context, p *Process) (err error) {
	var exit Exit
	select {
	case exit = <-p.Exited():
	case <-ctx.Done():
		p.Kill()
		err = context.Cause(ctx)
	}
	select {
	case <-p.Reaped():
	case <-time.After(lingering):
	}
	switch {
	case err != nil:
		return err
	case exit.Err != nil:
		return exit.Err
	case exit.ByDeadline:
		return b.tooLong()
	case exit.Signal != 0:
		return fmt.Errorf("killed by signal: %s", exit.Signal)
	case exit.Status != 0:
		return fmt.Errorf("exit status %d", exit.Status)
	}
	return nil
}

// pipes are the standard files of a Brief: what it reads, and the end of what it prints.
type pipes struct {
	stdin, stdout *os.File // the command's ends
	input, output *os.File
	end           tail
	read          chan struct{}
}

func newPipes(input []byte) (*pipes, error) {
	p := &pipes{read: make(chan struct{})}
	var in, out error
	if input != nil {
		p.stdin, p.input, in = os.Pipe()
	}
	p.output, p.stdout, out = os.Pipe()
	if err := errors.Join(in, out); err != nil {
		for _, f := range []*os.File{p.stdin, p.input, p.output, p.stdout} {
			_ = f.Close()
		}
		return nil, fmt.Errorf("pipes for the command: %w", err)
	}
	if input != nil {
		go func() {
			_, _ = p.input.Write(input) // a command need not read it
			p.input.Close()
		}()
	}
	go func() {
		defer close(p.read)
		_, _ = io.Copy(&p.end, p.output)
	}()
	return p, nil
}

// started closes what only the command needs now.
func (p *pipes) started() {
	_ = p.stdin.Close() // of nil it is an error, and nothing more
	_ = p.stdout.Close()
}

// close returns the end of what was printed. It does not wait for a process that keeps the pipe open.
func (p *pipes) close() string {
	_ = p.input.Close()
	_ = p.output.SetReadDeadline(time.Now().Add(lingering / 4))
	<-p.read
	p.output.Close()
	return p.end.String()
}

// tail keeps the end of what is written to it.
type tail struct{ end []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.end = append(t.end, b[max(len(b)-maxPrinted, 0):]...)
	if over := len(t.end) - maxPrinted; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(t.end)), "\uFFFD")
}
