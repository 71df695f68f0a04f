package postgres

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the store at an address such as postgres://dibs@db/app?namespace=shop, and makes schema and namespace if
// they are missing. Close the store when the program ends. Errors wrap lease.ErrUnavailable if the server cannot be
// reached. OpenConfig takes a parsed address; New takes a pool of yours.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
