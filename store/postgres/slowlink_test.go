package postgres

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store/storetest"
)

// A link that carries less than a worker has room for stops no queue.
// Holds: promise 26.
func TestASlowLinkStopsNoQueue(t *testing.T) {
	storetest.RunSlowLink(t, OpenConfig, testserver.Postgres(t))
}
