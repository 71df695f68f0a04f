package redis

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the store at an address such as redis://host:6379/0?namespace=shop, and makes the namespace if it is
// missing. Close the store when the program ends. Errors wrap lease.ErrUnavailable if the server cannot be reached.
// OpenConfig takes a parsed address; New takes a client of yours.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
