package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs/run"
)

const (
	// previousShare of an rpc timeout, 250 ms by default, is what the look gets beyond the start's own time.
	previousShare = 8
)

var errNoHistory = errors.New("history has not answered in time")

// success is what history says of a job's last one.
type success struct {
	at  time.Time // zero: none among the last runs
	err error     // why it is not known
}

// lookBack looks for the latest run that succeeded before the one that a lease was granted for. It begins with the
// grant, since whoever had the key before may have succeeded while it was waited for, and goes on beside the start.
type lookBack struct {
	place *Place
	fire  Fire
	found chan success
	end   context.CancelFunc
}

// lookBack of a fire that does not ask is nil.
func (p *Place) lookBack(f Fire) *lookBack {
	if !f.Previous {
		return nil
	}
	return &lookBack{place: p, fire: f, end: func() {}}
}

// begin begins to look, anew where an earlier start came to nothing.
func (b *lookBack) begin(ctx context.Context) {
	if b == nil || b.place.History == nil {
		return
	}
	b.end()
	ctx, b.end = context.WithTimeout(ctx, b.place.Keeper.Margin().RPCTimeout)
	found := make(chan success, 1)
	b.found = found
	go func() {
		at, err := b.place.lastSuccess(ctx, b.fire)
		found <- success{at, err}
	}()
}

// tell completes what the work is told. A history that is late is not waited for, since the lease is held meanwhile:
// the work is told then that it is not known.
func (b *lookBack) tell(c *run.Call) {
	if b == nil {
		return
	}
	defer b.end()
	enough := time.NewTimer(b.place.Keeper.Margin().RPCTimeout / previousShare)
	defer enough.Stop()
	s := success{err: errNoHistory}
	if b.found != nil {
		select {
		case s = <-b.found:
		case <-enough.C:
		}
	}
	if c.PreviousSuccess = s.at; s.err != nil {
		c.PreviousUnknown = true
		b.place.log().Warn("this run does not learn when its job last succeeded", "event", "previous-unknown",
			"job", c.Run.Job, "tick", stamp(c.Run.Tick), "run_id", c.Run.ID, "error", s.err)
	}
}

// drop ends the look of a fire that came to nothing.
func (b *lookBack) drop() {
	if b != nil {
		b.end()
	}
}

// lastSuccess is the tick of the latest run that succeeded (its start, for one without a tick); zero if none of the
// last ones did.
func (p *Place) lastSuccess(ctx context.Context, f Fire) (time.Time, error) {
	runs, err := p.batches().recent.Do(ctx, string(f.Key))
	at := lastSuccess(runs, f)
	if err != nil || !at.IsZero() || len(runs) < recentRuns {
		return at, err
	}
	runs, err = p.batches().earlier.Do(ctx, string(f.Key))
	return lastSuccess(runs, f), err
}

func lastSuccess(runs []run.Record, f Fire) time.Time {
	for _, r := range runs { // the latest start first
		switch {
		case r.Outcome != run.Succeeded || r.ID == f.RunID:
		case r.Tick.IsZero():
			return r.Started
		default:
			return r.Tick
		}
	}
	return time.Time{}
}
