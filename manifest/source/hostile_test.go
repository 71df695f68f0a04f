package source

import (
	"context"
	"testing"

	"github.com/dibs-run/dibs/internal/test/hostile"
)

// Whatever an application answers, the request for its manifest ends within its time.
func TestAHostileApplication(t *testing.T) {
	hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
		e, err := newEndpoint(address, Options{Secrets: signing})
		if err != nil {
			t.Error(err)
			return err
		}
		e.timeout = hostile.Bound
		s := &Source{name: address, read: e.read}
		_, err = s.Load(t.Context())
		return err
	})
}
