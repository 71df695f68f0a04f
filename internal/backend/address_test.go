package backend

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/store"
)

// dibs init asks a store for an answer as soon as any other command does, and then has time for an upgrade.
func TestAnUpgradeMayTakeLong(t *testing.T) {
	left := func(ctx context.Context) time.Duration {
		end, _ := ctx.Deadline()
		return time.Until(end)
	}
	down := errors.New("nobody answers")
	for _, c := range []struct {
		name        string
		first, want error
	}{{"answers", nil, nil}, {"is not prepared", store.ErrNotPrepared, nil}, {"is outdated", store.ErrOutdated, nil}, {"is down", down, down}} {
		t.Run(c.name, func(t *testing.T) {
			upgraded := false
			a := Address{Via: func(ctx context.Context, config store.Config) (*store.Store, error) {
				if config.Read {
					if config.Init || left(ctx) > OpenTimeout {
						t.Errorf("the first opening has %s, Init %t", left(ctx), config.Init)
					}
					return &store.Store{Close: func() error { return nil }}, c.first
				}
				upgraded = true
				if left(ctx) < time.Minute*2 {
					t.Errorf("the upgrade has %s", left(ctx))
				}
				return &store.Store{}, nil
			}}
			if _, err := a.open(t.Context(), store.Config{Init: true}); !errors.Is(err, c.want) || upgraded != (c.want == nil) {
				t.Errorf("%v, upgraded %t", err, upgraded)
			}
		})
	}
}
