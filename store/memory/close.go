package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	return step(ctx, k.b, func(now time.Time) []tick.Answer { return each(reqs, now, k.b.close) })
}

// close records an outcome and lets go of the lease, under one lock (rule T9). The release is
// conditional by itself, so it is tried even when the outcome is refused.
func (b *Backend) close(req tick.CloseRequest, now time.Time) tick.Answer {
	f := b.facts(req.Run.Job, req.Run.Tick, now)
	f.Run = b.known(req.Run.ID)
	v := tick.JudgeClose(req, f)
	if req.Release.Owner != (lease.Nonce{}) {
		b.release(req.Release)
	}
	return b.carryOut(v, req.Run.Job, req.Run.Tick, now)
}
