package kubernetes

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/hostile"
)

// Whatever an API server answers, each request ends within its time.
func TestAHostileAPIServer(t *testing.T) {
	hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
		h, err := (&cluster{}).client(nil, nil)
		if err != nil {
			return nil
		}
		c, err := newConnection("", address, "shop", h, (&user{Token: "sesame"}).bearer)
		if err != nil {
			return nil
		}
		c.patience, c.pause = hostile.Bound, func(context.Context, time.Duration) error { return nil }
		_, err = c.list(t.Context())
		return err
	})
}
