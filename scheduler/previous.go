package scheduler

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
)

// maxPrevious is how many runs back a job's last success is looked for.
const maxPrevious = 100

// fewPrevious are looked through first: mostly the last success is among them, and every run asks.
const fewPrevious = 5

// previousSuccess begins to look for the tick of the latest run that succeeded (its start, for one
// without a tick), and answers how to wait for it. Not to know it holds up nothing for longer than
// an rpc timeout, and fails nothing.
func (p *Place) previousSuccess(ctx context.Context, f Fire) func() time.Time {
	if !f.Previous || p.History == nil {
		return func() time.Time { return time.Time{} }
	}
	ctx, cancel := context.WithTimeout(ctx, p.Keeper.Margin().RPCTimeout)
	found := make(chan time.Time, 1)
	go func() {
		defer cancel()
		found <- p.lastSuccess(ctx, f)
	}()
	return func() time.Time { return <-found }
}

func (p *Place) lastSuccess(ctx context.Context, f Fire) time.Time {
	for _, limit := range []int{fewPrevious, maxPrevious} {
		runs, err := p.History.Runs(ctx, history.Query{Job: string(f.Key), Limit: limit})
		if err != nil {
			return time.Time{}
		}
		for _, r := range runs { // the latest start first
			switch {
			case r.Outcome != run.Succeeded || r.ID == f.RunID:
			case r.Tick.IsZero():
				return r.Started
			default:
				return r.Tick
			}
		}
		if len(runs) < limit {
			break // there are no more
		}
	}
	return time.Time{}
}
