package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// execute runs a command with the facts in its environment, and as JSON on its standard input. It is
// no work, has no lease, and leaves nothing behind: what it started ends with it, also what has gone
// into a session of its own.
func (l *line) execute(ctx context.Context, h scheduler.Happening) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout(), fmt.Errorf("it took longer than %s, and was killed", l.timeout()))
	defer cancel()
	args := l.hook.Command.Args
	if l.hook.Command.Shell != "" {
		args = []string{"/bin/sh", "-c", l.hook.Command.Shell}
	}
	facts, out, call := factsOf(h), new(printed), run.NewID()
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(slices.Clone(l.env), facts.environ()...)
	c.Env = append(c.Env, callVariable+"="+call)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(facts.json()), out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cancel = group
	c.WaitDelay = time.Second
	err := c.Run()
	if c.Process != nil {
		_ = group() // what it left, if anything
		sweep(call)
	}
	switch cause := context.Cause(ctx); {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it ended well; somebody has kept its output open
		return nil
	case cause != nil:
		err = cause
	}
	if text := out.String(); text != "" {
		err = fmt.Errorf("%w: it printed %q", err, text)
	}
	return err
}

// callVariable has another value for each call of a hook: by that, what it left behind is found.
const callVariable = "DIBS_HOOK_CALL"

// sweeps bounds how often what a call left behind is looked for: what is killed may just have started more.
const sweeps = 100

// sweep kills what a call of a hook left behind.
func sweep(call string) {
	for range sweeps {
		all, err := proc.All()
		if err != nil {
			return
		}
		left := false
		for _, s := range all {
			if env, err := proc.Environ(s.PID); err == nil && s.Alive() && env.Has(callVariable, call) {
				left = true
				_ = syscall.Kill(s.PID, syscall.SIGKILL)
			}
		}
		if !left {
			return
		}
	}
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
