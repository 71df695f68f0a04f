package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/queue/driver"
)

// Queues opens a store for its queues, and returns a function that closes it.
func Queues(ctx context.Context, open func(context.Context) (*Backend, error)) (q driver.Store, letGo func(), err error) {
	b, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	if b.Store.Queue == nil {
		b.Close()
		return nil, nil, fmt.Errorf("store %s has no queues: %w", b.Store.URL, errors.ErrUnsupported)
	}
	return b.Store.Queue, b.Close, nil
}
