package hook

import (
	"context"
	"testing"

	"github.com/dibs-run/dibs/internal/test/hostile"
	"github.com/dibs-run/dibs/job"
)

// Whatever a server answers to a ping or a webhook, an attempt ends within its time.
// Holds: promise 24.
func TestAHookAtAHostileServer(t *testing.T) {
	for name, of := range map[string]func(*job.Request) job.Hook{
		"ping":    func(r *job.Request) job.Hook { return job.Hook{Ping: r} },
		"webhook": func(r *job.Request) job.Hook { return job.Hook{Request: r} },
	} {
		t.Run(name, func(t *testing.T) {
			hostile.Each(t, true, func(t *testing.T, _ context.Context, address string) error {
				h := of(&job.Request{URL: address})
				h.Timeout = hostile.Bound
				_, err := (&line{hook: h}).send(t.Context(), Facts{Event: job.OnFailure})
				return err
			})
		})
	}
}
