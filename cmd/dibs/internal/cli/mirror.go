package cli

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// mirrorOf copies what a host's directory records to the shared store (rule H1).
func mirrorOf(host, shared *opened) *mirror.Mirror {
	id, namespace := shared.store.Properties.InstallationID, shared.config.Namespace
	return &mirror.Mirror{From: host.Place, To: shared.Place, Store: id + "-" + namespace,
		Cursor: mirror.FileIn(host.config.URL.Path, id, namespace)}
}

// startMirror has this host's own jobs copied to the shared store, if there are both, until the end of
// what is served. Call it with s.mu held.
func (s *service) startMirror() {
	host := s.places[job.Host]
	if s.mirroring != nil || s.bare || host == nil || !s.address.shared() {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.mirror(ctx, host)
	}()
	s.mirroring = func() { end(); <-done }
}

// mirror opens the shared store once more: host jobs run whether or not that can be done now.
func (s *service) mirror(ctx context.Context, host *opened) {
	for said := false; ; said = true {
		shared, err := open(ctx, s.address.Config, slog.New(slog.DiscardHandler))
		if err == nil {
			defer shared.close()
			mirrorOf(host, shared).Run(ctx)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !said {
			s.log.Warn("this host's own jobs are not copied to the shared store at the moment; dibs copies them later", "event", "mirror-delayed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lease.DefaultTTL / 3):
		}
	}
}

// retainAfter forgets what history does not keep, at the end of a process that ran one thing, so that a host
// without a server does so too. It asks the store some seven times, which may be far away, so one run in
// retainOneIn does it. What fails, or is not done in time, is left for another run.
func retainAfter(ctx context.Context, place *opened) {
	if rand.IntN(retainOneIn) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), place.Keeper.Margin().RPCTimeout)
	defer cancel()
	if err := place.Retain(ctx, mostAfter); err != nil {
		place.Log.Debug("history was not pruned; a later run does it", "error", err)
	}
}

const (
	retainOneIn = 10
	// mostAfter bounds the steps of the store that a process takes after its one run.
	mostAfter = 10
)

// mirrorAfter copies at the end of a process that ran one thing on this host, unless one that serves
// does. It takes little time and says nothing: what a store did not take now, the next one tells it.
func mirrorAfter(ctx context.Context, host *opened, shared store.Config) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.Keeper.Margin().RPCTimeout)
	defer cancel()
	to, err := open(ctx, shared, host.Log)
	if err != nil {
		return
	}
	defer to.close()
	_ = mirrorOf(host, to).Once(ctx)
}
