package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/lease"
)

// A Way is from a host's own store to the shared one.
type Way struct {
	From *backend.Backend
	// Dir is the host's directory, in which the cursor lies.
	Dir string
	// Open opens the shared store, whose namespace is Namespace.
	Open      func(context.Context) (*backend.Backend, error)
	Namespace string
	Log       *slog.Logger
}

// to is the mirror of a host in an opened store.
func (w Way) to(shared *backend.Backend) *Mirror {
	id := shared.Store.Properties.InstallationID
	return &Mirror{From: w.From.Backend, To: shared.Backend, Store: id + "-" + w.Namespace, Cursor: FileIn(w.Dir, id, w.Namespace)}
}

// Follow copies until ctx ends, and once more then. It opens the shared store for itself: host jobs run whether or not
// that can be done now.
func (w Way) Follow(ctx context.Context) {
	for said := false; ; said = true {
		shared, err := w.Open(ctx)
		if err == nil {
			defer shared.Close()
			w.to(shared).Run(ctx)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !said {
			w.Log.Warn("this host's own jobs are not copied to the shared store at the moment; dibs copies them later", "event", "mirror-delayed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lease.DefaultTTL / 3):
		}
	}
}

// After copies at the end of a process that ran one thing on this host, unless one that serves
// does. It takes little time and says nothing: what a store did not take now, the next one tells it.
func (w Way) After(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.From.Keeper.Margin().RPCTimeout)
	defer cancel()
	shared, err := w.Open(ctx)
	if err != nil {
		return
	}
	defer shared.Close()
	_ = w.to(shared).Once(ctx)
}
