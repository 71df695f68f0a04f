package webhook_test

import (
	"context"
	"testing"

	"github.com/dibs-run/dibs/internal/test/hostile"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/store/memory"
)

// Whatever a server or a proxy answers, an attempt ends within its time, without a success.
// Holds: promise 14.
func TestAnAttemptAtAHostileServer(t *testing.T) {
	for name, target := range map[string]func(string) webhook.Target{
		"server": func(address string) webhook.Target { return webhook.Target{URL: address, SameOrigin: true} },
		"proxy":  func(address string) webhook.Target { return webhook.Target{URL: "https://x.example/", Proxy: address} },
	} {
		t.Run(name, func(t *testing.T) {
			hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
				to := target(address)
				to.Method, to.Timeout = "POST", hostile.Bound
				r := to.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
				if r.Status == 101 && !r.Final {
					t.Errorf("it is tried again: %+v", r)
				}
				if r.Outcome == run.Succeeded {
					return nil
				}
				return r.Err
			})
		})
	}
}
