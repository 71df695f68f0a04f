package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/lease"
)

// A reading reads the facts of a store again and again, and keeps it open in between. It is safe for concurrent use.
type reading struct {
	address address
	timeout time.Duration // bounds opening the store, and then each look
	log     *slog.Logger
	mine    chan struct{} // has room for the one who uses place
	place   *opened
}

func newReading(a address, timeout time.Duration, log *slog.Logger) *reading {
	return &reading{address: a, timeout: timeout, log: log, mine: make(chan struct{}, 1)}
}

// close closes the store. Nobody reads any more.
func (r *reading) close() {
	if r.place != nil {
		r.place.close()
	}
}

// opened returns the store, which it opens the first time.
func (r *reading) opened(ctx context.Context) (_ *opened, err error) {
	select {
	case r.mine <- struct{}{}:
		defer func() { <-r.mine }()
	case <-ctx.Done(): // another one has been opening it all the while
		return nil, fmt.Errorf("open: %w: %w", lease.ErrUnavailable, ctx.Err())
	}
	if r.place == nil {
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		r.place, err = open(ctx, r.address.Config, r.log)
	}
	return r.place, err
}

func (r *reading) facts(ctx context.Context, o status.Options) (f status.Facts, err error) {
	place, err := r.opened(ctx)
	if err != nil {
		return f, err
	}
	err = status.Within(ctx, r.timeout, place.Keeper, func(ctx context.Context) (err error) {
		f, err = status.Read(ctx, place.Backend.Backend, place.store, o)
		return err
	})
	return f, err
}
