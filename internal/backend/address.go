package backend

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs/store"
)

// An Address says where a store is, and how to open it.
type Address struct {
	store.Config
	// Fleet states that a store at this address can reach beyond this host.
	Fleet bool
	// Via opens it.
	Via func(context.Context, store.Config) (*store.Store, error)
}

// OpenTimeout bounds the opening of a store, with the preparation of a new one. prepareTimeout bounds what `dibs init`
// (store.Config.Init) does with a store that has answered: it may have to wait for working servers, or to rebuild what
// is large.
const (
	OpenTimeout    = 10 * time.Second
	prepareTimeout = 30 * time.Minute
)

// Open opens the store at an address, and makes its backend. The TTL, the epoch and the namespace of o come from the
// address and from what this host remembers about it.
func Open(ctx context.Context, a Address, o Options) (*Backend, error) {
	was := a.remembered(o.Dir)
	c := a.Config
	c.SeenTTL = was.ttl
	s, err := a.open(ctx, c)
	if err != nil {
		return nil, err
	}
	o.TTL, o.Seen, o.Namespace = c.TTL, was.epoch, c.Namespace
	b, err := New(s, o)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	was.keepTTL(s)
	b.ends = func() {
		was.keepEpoch(b.Keeper.Epoch())
		letGo(s, b.Keeper.Margin().RPCTimeout)
	}
	return b, nil
}

// open opens a store in time.
func (a Address) open(ctx context.Context, c store.Config) (*store.Store, error) {
	timeout := OpenTimeout
	if c.Init {
		if err := a.answers(ctx, c); err != nil {
			return nil, err
		}
		timeout = prepareTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.Via(ctx, c)
}

// answers returns an error if the store is not there. It prepares nothing.
func (a Address) answers(ctx context.Context, c store.Config) error {
	c.Init, c.Read = false, true
	s, err := a.open(ctx, c)
	if err == nil {
		return s.Close()
	}
	if errors.Is(err, store.ErrNotPrepared) || errors.Is(err, store.ErrOutdated) {
		return nil
	}
	return err
}

// letGo closes a store's connections. If the store no longer answers, it does not wait long: the process is about to
// end, and its caller waits.
func letGo(s *store.Store, within time.Duration) {
	closed := make(chan struct{})
	go func() {
		_ = s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(within):
	}
}
