package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) []tick.Answer { return each(reqs, now, k.b.close) })
}

// close records an outcome and lets go of the lease, under one lock (rule T9). The release is
// conditional by itself, so it is tried even when the outcome is refused.
func (b *Backend) close(req tick.CloseRequest, now time.Time) tick.Answer {
	var s tick.Status
	if req.Run.ID == "" {
		s = b.closeClaim(req, now)
	} else {
		s = b.closeRun(req.Run, now)
	}
	if req.Release.Owner != (lease.Nonce{}) {
		b.release(req.Release)
	}
	return b.answer(s, req.Run.Job, req.Run.Tick, now)
}

// closeClaim ends a claim that ran nothing.
func (b *Backend) closeClaim(req tick.CloseRequest, now time.Time) tick.Status {
	row, found := b.row(req.Run.Job, req.Run.Tick)
	switch {
	case !found || row.Lease != req.Claim || row.RunID != "":
		return tick.Taken
	case row.State == tick.Closed && row.Outcome != req.Run.Outcome:
		return tick.Taken
	case row.State == tick.Closed:
		return tick.Won // repeated
	}
	b.putRow(ended(row, req.Run, now))
	return tick.Won
}

// closeRun ends a run, and its tick while that is still of this run.
func (b *Backend) closeRun(r run.Record, now time.Time) tick.Status {
	old := b.runs[r.ID]
	switch {
	case old == nil || old.Owner != r.Owner || old.Token != r.Token:
		return tick.Taken
	case !amends(old.Outcome, old.Inferred, r):
		if old.Outcome == r.Outcome && old.Inferred == r.Inferred {
			return tick.Won // repeated
		}
		return tick.Taken
	}
	*old = concluded(*old, r, now)
	row, found := b.row(old.Job, old.Tick)
	if found && row.RunID == r.ID && amends(row.Outcome, row.Inferred, r) {
		b.putRow(ended(row, r, now))
	}
	return tick.Won
}

// amends says whether a report changes what is known: the first outcome does, and the run's own
// word replaces what somebody else inferred (rule T3).
func amends(known run.Outcome, inferred bool, r run.Record) bool {
	return known == "" || inferred && !r.Inferred
}

func concluded(old, r run.Record, now time.Time) run.Record {
	r = instants(r)
	old.Outcome, old.Reason, old.Inferred, old.Attempts, old.Ended = r.Outcome, r.Reason, r.Inferred, r.Attempts, r.Ended
	if old.Ended.IsZero() {
		old.Ended = now
	}
	return old
}

func ended(row tick.Tick, r run.Record, now time.Time) tick.Tick {
	row.State, row.Outcome, row.Reason, row.Inferred, row.Ended = tick.Closed, r.Outcome, r.Reason, r.Inferred, micro(r.Ended)
	if row.Ended.IsZero() {
		row.Ended = now
	}
	return row
}
