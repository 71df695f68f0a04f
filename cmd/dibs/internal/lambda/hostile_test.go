package lambda

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/hostile"
)

// Whatever the runtime API answers, the wait for an invocation ends with its context, and a report within its time.
func TestAHostileRuntimeAPI(t *testing.T) {
	of := func(address string) *Runtime {
		r := New(strings.TrimPrefix(address, "http://"))
		r.patience = hostile.Bound
		return r
	}
	t.Run("next", func(t *testing.T) {
		hostile.Each(t, false, func(t *testing.T, ctx context.Context, address string) error {
			_, err := of(address).next(ctx)
			return err
		})
	})
	t.Run("report", func(t *testing.T) {
		hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
			return of(address).InitFailed(errors.New("broken"))
		})
	})
}
