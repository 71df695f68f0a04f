package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
)

// The time that hooks get at the end of a Server and a Worker for what they still have to report: the rest of the
// drain and afterDrain. They get a minimum even when work took long to stop, and no more than is useful. By default
// everything is over 24 s after SIGTERM, within the 30 s that Kubernetes gives. A single fire has nothing else to
// do, and gives them longer.
const (
	afterDrain      = 4 * time.Second
	leastHookDrain  = 2 * time.Second
	mostHookDrain   = 10 * time.Second
	singleHookDrain = 2 * time.Minute
)

// hookDrain returns the time that hooks get when some time has passed since the process was told to stop.
func hookDrain(drain, passed time.Duration) time.Duration {
	return min(max(drain+afterDrain-passed, leastHookDrain), mostHookDrain)
}

// hooksFor makes the hooks of a job; set replaces earlier hooks by them, once the job's home is open.
func (s *service) hooksFor(spec *job.Spec, env []string) (set func(), err error) {
	for i := range spec.Hooks {
		if err := hook.Check(&spec.Hooks[i]); err != nil {
			return nil, fmt.Errorf("hook %d (%s): %w", i+1, hook.Describe(&spec.Hooks[i]), err)
		}
	}
	var secret []byte
	if len(spec.Secrets) > 0 && slices.ContainsFunc(spec.Hooks, func(h job.Hook) bool { return h.Request != nil }) {
		all, err := s.secrets.Values(spec.Secrets)
		if err != nil {
			return nil, err
		}
		secret = all[0]
	}
	return func() { s.homes[spec.Policy.Scope].hooks.Set(spec, secret, env) }, nil
}

// closeHooks lets hooks report what is left, until ctx ends.
func (s *service) closeHooks(ctx context.Context) {
	for _, h := range s.homes {
		h.FlushHooks(aside.FlushTime)
	}
	var closing sync.WaitGroup
	for _, h := range s.homes {
		closing.Go(func() { h.hooks.Close(ctx) })
	}
	closing.Wait()
}
