package hook

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/scheduler"
)

// A line is one hook of a job, with what it is to tell: in order, so that a start is never told
// after the end.
type line struct {
	r      *Runner
	hook   job.Hook
	name   string // for people, without what may be secret in an address
	secret []byte
	env    []string

	mu      sync.Mutex
	waiting []message
	busy    bool
}

// A message is one thing to tell: its facts, and, of a job, what happened, by which a recovery is known.
type message struct {
	Facts
	of scheduler.Happening
}

// maxWaiting bounds what waits behind a hook that is slow.
const maxWaiting = 100

func newLine(r *Runner, spec *job.Spec, i int) *line {
	l := &line{r: r, hook: spec.Hooks[i]}
	l.name = fmt.Sprintf("hook %d (%s)", i+1, Describe(&l.hook))
	if l.hook.Ping != nil {
		ping := *l.hook.Ping
		ping.URL = l.hook.PingURL(spec)
		l.hook.Ping = &ping
	}
	return l
}

// Describe says what a hook does, for people: without what may be secret in an address.
func Describe(h *job.Hook) string {
	switch {
	case h.Ping != nil:
		return "ping " + host(h.Ping.URL)
	case h.Request != nil:
		return "request " + host(h.Request.URL)
	case h.Command.Shell != "":
		return "command /bin/sh"
	}
	return "command " + filepath.Base(h.Command.Args[0])
}

// host is as much of an address as may be shown: the path of a ping is a password.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that cannot be read)"
	}
	return u.Scheme + "://" + u.Host
}

// add has the line tell m on.
func (l *line) add(m message) {
	if !l.r.admit() {
		return
	}
	l.mu.Lock()
	full := len(l.waiting) >= maxWaiting
	if !full {
		l.waiting = append(l.waiting, m)
	}
	first := !l.busy && !full
	l.busy = l.busy || first
	l.mu.Unlock()
	switch {
	case full:
		go func() {
			defer l.r.told()
			l.r.failed(l, m, fmt.Errorf("dropped: %d wait before it", maxWaiting))
		}()
	case first:
		go l.work()
	}
}

// work tells on what waits until nothing does.
func (l *line) work() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		m := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		if err := l.tell(l.r.ctx, m); err != nil {
			l.r.failed(l, m, err)
		}
		l.r.told()
	}
}

// pauses are those between the attempts at a ping or a webhook: one attempt more than these.
var pauses = []time.Duration{time.Second, 4 * time.Second}

// tell tells one thing on. A command has one attempt: it may have done half of its work.
func (l *line) tell(ctx context.Context, m message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.Event == job.OnRecovery {
		if is, err := l.r.recovered(ctx, m.of); err != nil || !is {
			return err
		}
	}
	if l.hook.Command != nil {
		return l.execute(ctx, m.Facts)
	}
	for n := 0; ; n++ {
		again, err := l.send(ctx, m.Facts)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		case !again || n == len(pauses):
			return fmt.Errorf("%w (attempt %d)", err, n+1)
		}
		select {
		case <-time.After(pauses[n]):
		case <-ctx.Done():
			return fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		}
	}
}
