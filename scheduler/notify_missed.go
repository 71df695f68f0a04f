package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// settled notifies of the ticks that this process has settled as missed: the rows that exist and are its own. Rows
// may have been left out (see tick.Store), and are then another process's. An observer is told of all rows up to the
// first tick that is not finished, at open, if there is one: the store left out those above. It counts, and a read for
// each settling would cost more than a row that another process has written meanwhile.
func (n *notifier) settled(ctx context.Context, name string, rows []tick.Tick, open time.Time) {
	for _, t := range rows {
		if !open.IsZero() && !t.At.Before(open) {
			continue
		}
		n.observe(run.Record{Job: t.Job, Tick: t.At, Outcome: t.Outcome, Reason: t.Reason}, observe.Skipped, t.Count)
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(t tick.Tick) bool { return t.Outcome != run.Missed })
	if len(rows) == 0 {
		return
	}
	const most, each = 1000, 100 // rows at a time, and bytes of a row
	for part := range slices.Chunk(rows, most) {
		n.later(len(part)*each, func(hooks Hooks) {
			if hooks.Wants(name, job.OnMiss) {
				n.missed(ctx, name, part, hooks.Tell)
			}
		}, "on", job.OnMiss, "job", name, "tick", stamp(part[0].At))
	}
}

// missed reads back what was settled, within an rpc timeout, and passes it on.
func (n *notifier) missed(ctx context.Context, name string, rows []tick.Tick, notify func(Happening)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	until := rows[len(rows)-1].At.Add(time.Microsecond)
	there, err := n.b.History.Ticks(ctx, history.Query{Job: name, From: rows[0].At, To: until, Limit: settleBatch})
	if err != nil {
		n.b.log().Warn("the reports of missed ticks to hooks are dropped, because the settled ticks could not be read back", "job", name, "error", err)
		return
	}
	for _, t := range rows {
		if slices.ContainsFunc(there, func(o tick.Tick) bool {
			return o.At.Equal(t.At) && o.Through.Equal(t.Through) && o.Outcome == t.Outcome && o.Ended.Equal(t.Ended)
		}) {
			notify(Happening{On: job.OnMiss, Job: name, Tick: t.At, Through: t.Through, Count: t.Count, Outcome: t.Outcome,
				Reason: t.Reason})
		}
	}
}

// group collects ticks of one job that ended alike one by one, to report them as one.
type group struct{ Happening }

func (g *group) add(name string, at time.Time, o run.Outcome, reason string) {
	if g.Count == 0 {
		g.Happening = Happening{Job: name, Tick: at, Outcome: o, Reason: reason}
		g.On, _ = eventOf(o, reason)
	}
	if g.Count++; at.Before(g.Tick) {
		g.Tick = at
	}
	if g.Count > 1 && at.After(g.Through) {
		g.Through = at
	}
}
