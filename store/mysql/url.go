package mysql

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the store at an address such as mysql://dibs@db/app?namespace=shop, and prepares it where that was not
// done yet. Close the store when the program ends. Its errors wrap lease.ErrUnavailable where the server cannot be
// reached. OpenConfig takes an address that is parsed already; New takes a pool of yours.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
