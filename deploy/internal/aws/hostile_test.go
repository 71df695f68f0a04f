package aws

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/hostile"
)

// Whatever a service of AWS answers, a call ends within its time; so do the questions for credentials.
func TestAHostileService(t *testing.T) {
	t.Run("API", func(t *testing.T) {
		hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
			c := &Client{Service: "thing", Region: "eu-x-1", Endpoint: address, Keys: keys, Attempt: hostile.Bound, Pause: time.Millisecond}
			var out struct{ Name string }
			return c.Do(t.Context(), Call{Operation: "Do", Method: "GET", Path: []string{"x"}, Out: &out})
		})
	})
	t.Run("credentials", func(t *testing.T) {
		hostile.Each(t, false, func(t *testing.T, _ context.Context, address string) error {
			_, err := keysFrom(t.Context(), address, http.Header{})
			return err
		})
	})
}
