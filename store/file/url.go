package file

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the directory at a path or an address such as file:///var/lib/dibs, and makes it where there is none. It
// reaches this host only. Close the store when the program ends. OpenConfig takes an address that is parsed already.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
