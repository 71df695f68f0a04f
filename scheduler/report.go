package scheduler

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// reporter reports outcomes to the store, or else leaves them to the outbox (rule T9).
type reporter struct {
	b        *Backend
	outcomes *outcomes
	outbox   *outbox
}

// report sends an outcome to the store, again and again while the lease is good: until it is delivered, the lease
// stays renewed and nobody else starts. After two TTLs, when the lease is lost, or at the end of a shutdown, the
// outcome is spooled (rule T9). An outcome without a lease is tried for one rpc timeout. what is close's.
func (r *reporter) report(ctx context.Context, req tick.CloseRequest, l *lease.Lease) (a tick.Answer, what news, err error) {
	if l != nil {
		return r.reportFor(ctx, req, l, 2*r.b.Keeper.Margin().TTL)
	}
	return r.reportFor(ctx, req, nil, r.b.Keeper.Margin().RPCTimeout)
}

// reportFor is report with its own patience. An answer without a status means that the outcome was spooled.
func (r *reporter) reportFor(ctx context.Context, req tick.CloseRequest, l *lease.Lease, patience time.Duration) (a tick.Answer, what news, err error) {
	var lost <-chan struct{}
	if l != nil {
		lost = l.Lost()
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, r.b.Keeper.Margin().Heartbeat) {
		if a, what, err = r.outcomes.close(ctx, req, isClosed(lost)); err == nil {
			return a, what, nil
		}
		if pause == 50*time.Millisecond {
			r.b.log().Warn("an outcome cannot be recorded yet", "event", "outcome-delayed", "job", req.Run.Job, "run_id", req.Run.ID, "error", err)
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
			continue
		case <-lost:
		case <-ctx.Done():
		case <-enough.C:
		}
		again.Stop()
		r.outbox.keep(Item{Close: &req}, err)
		if l != nil {
			_ = l.Release(ctx) // the outcome is safe on this host, and the key need not wait for the TTL
		}
		return tick.Answer{}, noNews, nil
	}
}

// isClosed reports whether a channel is closed; nil never is.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
