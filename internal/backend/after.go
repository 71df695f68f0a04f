package backend

import (
	"context"
	"math/rand/v2"

	"github.com/dibs-run/dibs/run"
)

const (
	// RetainOneIn is the average number of processes with a single run of which one deletes old history.
	RetainOneIn = 10
	// MostAfter bounds the store steps that such a process takes after its run.
	MostAfter = 10
)

// RetainAfter deletes what history does not keep, at the end of a process with a single run, so that a host without
// a server does so too. It sends about seven requests to the store, which may be far away, so only one run in
// RetainOneIn does it. What fails, or is not done in time, is left for another run.
func (b *Backend) RetainAfter(ctx context.Context) {
	if rand.IntN(RetainOneIn) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Keeper.Margin().RPCTimeout)
	defer cancel()
	if err := b.Retain(ctx, MostAfter); err != nil {
		b.Log.Debug("history was not pruned; a later run does it", "error", err)
	}
}

// Keep stores what a run printed, and does not take long. It is called after the release.
func (b *Backend) Keep(r run.Record, output []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.Keeper.Margin().RPCTimeout)
	defer cancel()
	return b.KeepOutput(ctx, r, output)
}
