package backend

import (
	"context"
	"math/rand/v2"

	"github.com/dibs-run/dibs/run"
)

const (
	// RetainOneIn is how many processes that ran one thing there are for one that forgets.
	RetainOneIn = 10
	// MostAfter bounds the steps of the store that such a process takes after its one run.
	MostAfter = 10
)

// RetainAfter forgets what history does not keep, at the end of a process that ran one thing, so that a host
// without a server does so too. It asks the store some seven times, which may be far away, so one run in
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

// Keep keeps what a run printed, and does not take long. It comes after the release.
func (b *Backend) Keep(r run.Record, output []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.Keeper.Margin().RPCTimeout)
	defer cancel()
	return b.KeepOutput(ctx, r, output)
}
