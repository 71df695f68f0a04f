package file

import (
	"context"

	"github.com/dibs-run/dibs/store"
)

// Open opens the directory at a path or an address such as file:///var/lib/dibs, and makes it if it is missing. It
// reaches this host only. Close the store when the program ends. OpenConfig takes a parsed address.
func Open(ctx context.Context, url string) (*store.Store, error) {
	return store.OpenURL(ctx, url, OpenConfig)
}
