package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs/run"
)

const (
	// previousShare is the fraction of an rpc timeout, 250 ms by default, that the lookup gets beyond the start's
	// own time.
	previousShare = 8
)

var errNoHistory = errors.New("history has not answered in time")

// success is what history says about a job's last success.
type success struct {
	at  time.Time // zero: none among the last runs
	err error     // why it is not known
}

// previousLookup looks for the latest run that succeeded before the one that a lease was granted for. It begins with
// the grant, since an earlier holder of the key may have succeeded during the wait, and runs concurrently with the
// start.
type previousLookup struct {
	*execution
	found chan success
	end   context.CancelFunc
}

// lookUpPrevious returns nil for a fire that does not ask.
func (x *execution) lookUpPrevious() *previousLookup {
	if !x.Previous {
		return nil
	}
	return &previousLookup{execution: x, end: func() {}}
}

// begin starts the lookup, again if an earlier start failed.
func (p *previousLookup) begin(ctx context.Context) {
	if p == nil || p.b.History == nil {
		return
	}
	p.end()
	ctx, p.end = context.WithTimeout(ctx, p.b.Keeper.Margin().RPCTimeout)
	found := make(chan success, 1)
	p.found = found
	go func() {
		at, err := p.lastSuccess(ctx)
		found <- success{at, err}
	}()
}

// complete adds the result to the call. It does not wait for a slow history, since the lease is held meanwhile: the
// call then says that the result is unknown.
func (p *previousLookup) complete(c *run.Call) {
	if p == nil {
		return
	}
	defer p.end()
	enough := time.NewTimer(p.b.Keeper.Margin().RPCTimeout / previousShare)
	defer enough.Stop()
	s := success{err: errNoHistory}
	if p.found != nil {
		select {
		case s = <-p.found:
		case <-enough.C:
		}
	}
	if c.PreviousSuccess = s.at; s.err != nil {
		c.PreviousUnknown = true
		p.b.log().Warn("this run does not learn when its job last succeeded", "event", "previous-unknown",
			"job", c.Run.Job, "tick", stamp(c.Run.Tick), "run_id", c.Run.ID, "error", s.err)
	}
}

// drop ends the lookup of a fire that failed.
func (p *previousLookup) drop() {
	if p != nil {
		p.end()
	}
}

// lastSuccess returns the tick of the latest run that succeeded (its start, for one without a tick); zero if none of
// the last ones did.
func (p *previousLookup) lastSuccess(ctx context.Context) (time.Time, error) {
	runs, err := p.requests.open().recent.Do(ctx, string(p.Key))
	at := lastSuccess(runs, p.RunID)
	if err != nil || !at.IsZero() || len(runs) < recentRuns {
		return at, err
	}
	runs, err = p.requests.open().earlier.Do(ctx, string(p.Key))
	return lastSuccess(runs, p.RunID), err
}

// lastSuccess returns it from runs, leaving out one of them.
func lastSuccess(runs []run.Record, but string) time.Time {
	for _, r := range runs { // the latest start first
		switch {
		case r.Outcome != run.Succeeded || r.ID == but:
		case r.Tick.IsZero():
			return r.Started
		default:
			return r.Tick
		}
	}
	return time.Time{}
}
