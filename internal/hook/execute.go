package hook

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
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
)

// execute runs a command with the facts in its environment, and as JSON on its standard input. It is
// no work and has no lease, but a guardian like one, so that it leaves nothing behind: what it started
// ends with it, also what has gone into a session of its own, and it ends with this process.
func (l *line) execute(ctx context.Context, h scheduler.Happening) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout(), fmt.Errorf("it took longer than %s, and was killed", l.timeout()))
	defer cancel()
	files, err := newPipes(factsOf(h).json())
	if err != nil {
		return err
	}
	err = l.call(ctx, h, files)
	if text := files.close(); err != nil && text != "" {
		err = fmt.Errorf("%w: it printed %q", err, text)
	}
	return err
}

// call runs the command, and returns when it and all that it started are gone.
func (l *line) call(ctx context.Context, h scheduler.Happening, files *pipes) error {
	p, err := command.Start(l.spec(h, files))
	files.started()
	if err != nil {
		return err
	}
	var exit command.Exit
	select {
	case exit = <-p.Exited():
	case <-ctx.Done():
		p.Kill()
		err = context.Cause(ctx)
	}
	select {
	case <-p.Reaped():
	case <-time.After(lingering): // what it started as somebody else, dibs may not be able to kill
	}
	switch {
	case err != nil:
		return err
	case exit.Err != nil:
		return exit.Err
	case exit.ByDeadline:
		return fmt.Errorf("it took longer than %s, and was killed", l.timeout())
	case exit.Signal != 0:
		return fmt.Errorf("killed by signal: %s", exit.Signal)
	case exit.Status != 0:
		return fmt.Errorf("exit status %d", exit.Status)
	}
	return nil
}

// lingering is how long what a call left behind is waited for, once it is told to be gone.
const lingering = time.Second

// spec says what a call runs. It is known by an id of its own: by that of the run that it is told of,
// what is left of the run is found and killed. The guardian keeps the time too, should this process be
// stopped.
func (l *line) spec(h scheduler.Happening, files *pipes) command.Spec {
	args := l.hook.Command.Args
	if l.hook.Command.Shell != "" {
		args = []string{"/bin/sh", "-c", l.hook.Command.Shell}
	}
	return command.Spec{Args: args, Env: append(slices.Clone(l.env), factsOf(h).environ()...), RunID: run.NewID(),
		Stdin: files.stdin, Stdout: files.stdout, Stderr: files.stdout, Leftovers: command.Kill,
		Deadline: command.Deadline{Kill: clock.System.Boot() + l.timeout() + lingering}}
}

// pipes are the standard files of a call: what it reads, and the end of what it prints.
type pipes struct {
	stdin, stdout *os.File // the command's ends
	input, output *os.File
	end           printed
	read          chan struct{}
}

func newPipes(input []byte) (*pipes, error) {
	p := &pipes{read: make(chan struct{})}
	var in, out error
	p.stdin, p.input, in = os.Pipe()
	p.output, p.stdout, out = os.Pipe()
	if err := errors.Join(in, out); err != nil {
		for _, f := range []*os.File{p.stdin, p.input, p.output, p.stdout} {
			_ = f.Close()
		}
		return nil, fmt.Errorf("pipes for the command: %w", err)
	}
	go func() {
		_, _ = p.input.Write(input) // a command need not read it
		p.input.Close()
	}()
	go func() {
		defer close(p.read)
		_, _ = io.Copy(&p.end, p.output)
	}()
	return p, nil
}

// started closes what only the command needs now.
func (p *pipes) started() {
	p.stdin.Close()
	p.stdout.Close()
}

// close returns the end of what was printed, though it does not wait for somebody who keeps it open.
func (p *pipes) close() string {
	p.input.Close()
	_ = p.output.SetReadDeadline(time.Now().Add(lingering / 4))
	<-p.read
	p.output.Close()
	return p.end.String()
}

// maxPrinted is how much of what a hook prints is kept, for the error: the end.
const maxPrinted = 1000

type printed struct{ end []byte }

func (p *printed) Write(b []byte) (int, error) {
	p.end = append(p.end, b[max(len(b)-maxPrinted, 0):]...)
	if over := len(p.end) - maxPrinted; over > 0 {
		p.end = append(p.end[:0], p.end[over:]...)
	}
	return len(b), nil
}

func (p *printed) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(p.end)), "\uFFFD")
}
