package memory

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens a store of this process at the address "memory:"; ?namespace= chooses one of several. Everything in it
// is lost when the process ends: it is for tests. OpenConfig takes a parsed address; New makes a store that nobody
// else can open.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
