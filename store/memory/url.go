package memory

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the store of this process at the address "memory:", with ?namespace= one of several. Everything in it is
// lost when the process ends: it is for tests. OpenConfig takes an address that is parsed already; New makes a store
// that nobody else can open.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
