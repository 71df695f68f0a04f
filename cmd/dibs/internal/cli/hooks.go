package cli

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
)

// What hooks get at the end of dibs serve and dibs work, for what they are still to tell: what a drain left of
// its time and afterDrain; yet something when work took long to stop, and no more than is of use. By default
// all of it is over 24 s after SIGTERM, within the 30 s that Kubernetes gives. A single fire has nothing else
// to do, and gives them longer.
const (
	afterDrain      = 4 * time.Second
	leastHookDrain  = 2 * time.Second
	mostHookDrain   = 10 * time.Second
	singleHookDrain = 2 * time.Minute
)

// hookDrain is what hooks get when some time has passed since serve was told to stop.
func hookDrain(drain, passed time.Duration) time.Duration {
	return min(max(drain+afterDrain-passed, leastHookDrain), mostHookDrain)
}

// hooksOf makes what runs the hooks of the jobs at a place.
func (s *service) hooksOf(p *opened) *hook.Runner {
	h := hook.New(hook.Options{History: p.History, Event: p.Record, Log: s.log, Enter: s.inner.enter})
	p.Hooks = h
	return h
}

// hooksFor makes the hooks of a job; set puts them in the place of earlier ones, once its place is open.
func (s *service) hooksFor(spec *job.Spec, env []string) (set func(), err error) {
	for i := range spec.Hooks {
		if err := hook.Check(&spec.Hooks[i]); err != nil {
			return nil, fmt.Errorf("hook %d (%s): %w", i+1, hook.Describe(&spec.Hooks[i]), err)
		}
	}
	var secret []byte
	if len(spec.Secrets) > 0 && slices.ContainsFunc(spec.Hooks, func(h job.Hook) bool { return h.Request != nil }) {
		all, err := s.values(spec.Secrets)
		if err != nil {
			return nil, err
		}
		secret = all[0]
	}
	return func() { s.hooks[spec.Policy.Scope].Set(spec, secret, env) }, nil
}

// closeHooks lets hooks tell what they are still to tell, within a bound. Whoever asks a single fire to
// end meanwhile need not wait for them: its outcome stands. One who asked before, while it ran or while its first
// hook was told already, waits for them as for those of a server.
func (s *service) closeHooks() {
	ctx, bound := context.Background(), hookDrain(s.drain, time.Since(s.told))
	if s.bare {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
		defer stop()
		bound = singleHookDrain
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if s.bare && s.asked != nil {
		defer context.AfterFunc(s.asked, func() { time.AfterFunc(mostHookDrain, cancel) })()
	}
	for _, p := range s.places {
		p.FlushHooks(aside.FlushTime)
	}
	var closing sync.WaitGroup
	for _, h := range s.hooks {
		closing.Go(func() { h.Close(ctx) })
	}
	closing.Wait()
}

// whoIsTold says who is told what happens to a job, a line for each hook.
func whoIsTold(s *job.Spec) (lines []string) {
	for _, h := range s.Hooks {
		var on []string
		for _, e := range h.On {
			text := string(e)
			if e == job.OnTooLong {
				text += fmt.Sprintf(" (%s)", h.TooLong)
			}
			on = append(on, text)
		}
		lines = append(lines, fmt.Sprintf("hook on %s: %s", strings.Join(on, ", "), hook.Describe(&h)))
	}
	return lines
}
