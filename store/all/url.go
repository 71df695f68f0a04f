package all

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the store at an address, whatever its scheme: file, redis, postgres, mysql and the others of Drivers. A
// program that knows its store uses the Open of that store's package, and links no other client.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
