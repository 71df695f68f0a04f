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

	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
)

// hookDrain is what hooks get at the end of dibs serve, for what they are still to tell. A single
// fire has nothing else to do, and gives them longer.
const (
	hookDrain       = 10 * time.Second
	singleHookDrain = 2 * time.Minute
)

// hooksOf makes what runs the hooks of the jobs at a place.
func (s *service) hooksOf(p *opened) *hook.Runner {
	h := hook.New(hook.Options{History: p.History, Event: p.Event, Log: s.log})
	p.Hooks = h
	return h
}

// hooksFor makes the hooks of a job; set puts them in the place of earlier ones, once its place is open.
func (s *service) hooksFor(spec *job.Spec) (set func(), err error) {
	var secret []byte
	if len(spec.Secrets) > 0 && slices.ContainsFunc(spec.Hooks, func(h job.Hook) bool { return h.Request != nil }) {
		all, err := secrets(spec.Secrets)
		if err != nil {
			return nil, err
		}
		secret = all[0]
	}
	return func() { s.hooks[spec.Policy.Scope].Set(spec, secret, s.environ()) }, nil
}

// closeHooks lets hooks tell what they are still to tell, within a bound. Whoever asks a single fire to
// end meanwhile need not wait for them: its outcome stands.
func (s *service) closeHooks() {
	ctx, bound := context.Background(), hookDrain
	if s.bare {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
		defer stop()
		bound = singleHookDrain
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
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
