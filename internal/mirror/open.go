package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/lease"
)

// A Way leads from a host's own store to the shared one.
type Way struct {
	From *backend.Backend
	// Dir is the host's directory, which contains the cursor.
	Dir string
	// Open opens the shared store, whose namespace is Namespace.
	Open      func(context.Context) (*backend.Backend, error)
	Namespace string
	Log       *slog.Logger
}

// to returns the mirror of a host in an opened store.
func (w Way) to(shared *backend.Backend) *Mirror {
	id := shared.Store.Properties.InstallationID
	return &Mirror{From: w.From.Backend, To: shared.Backend, Store: id + "-" + w.Namespace, Cursor: FileIn(w.Dir, id, w.Namespace)}
}

// Follow copies until ctx ends, and once more then. It opens the shared store itself: host jobs run whether or not
// that is possible now.
func (w Way) Follow(ctx context.Context) {
	for said := false; ; said = true {
		shared, err := w.Open(ctx)
		if err == nil {
			again := w.to(shared).Run(ctx)
			shared.Close()
			if !again {
				return
			}
			continue
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

// After copies at the end of a process with a single run on this host, unless a serving process does. It takes
// little time and logs nothing: the next process copies what the store did not accept now.
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
