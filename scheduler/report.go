package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// ClockStepped records that this process saw the store's clock step (rule L12).
func (p *Place) ClockStepped(step time.Duration) {
	where := "forward"
	if step < 0 {
		where = "back"
	}
	p.Event(context.Background(), history.Event{Kind: "clock-step",
		Reason: fmt.Sprintf("the store's clock stepped %s by %s; schedules follow the old line for a minute", where, step.Abs().Round(100*time.Millisecond))})
}

// HeldBack records that this process waits for a store that is new or was restarted (rule L9).
func (p *Place) HeldBack(wait time.Duration) {
	p.Record(context.Background(), history.Event{Kind: "held-back", // whoever hears of it logs it
		Reason: "the store is new, or not the same as before: it grants nothing until " + stamp(p.now().Add(wait).Truncate(time.Second))})
}

// heldBack tells that this process waits for such a store, once for each time: all that wait hear of it.
func (p *Place) heldBack(wait time.Duration) {
	if p.OnHeldBack != nil {
		p.OnHeldBack(wait)
		return
	}
	end := p.Keeper.Boot() + wait
	if before := p.backTold.Swap(int64(end)); before != 0 && end-time.Duration(before) < time.Second {
		return
	}
	p.log().Warn(lease.HoldBackText(wait), "event", "held-back", "wait", wait.Round(time.Millisecond), "place", p.Name)
	p.HeldBack(wait)
}

// holding says that the store grants nothing now, as far as this process knows.
func (p *Place) holding() bool {
	_, until := p.Keeper.HeldBack()
	return p.now().Before(until)
}

// startBy is until when a tick of a job may start: its starting deadline, without the time in which the store
// held grants back (rule L9).
func (p *Place) startBy(j *Job, at time.Time) time.Time {
	return p.Keeper.Extend(j.Starts(at), j.StartBy(at))
}

// lastStart is the same of a fire.
func (p *Place) lastStart(f Fire) time.Time { return p.Keeper.Extend(f.Tick, f.StartBy) }

// contended records that a run without a tick found its key held (promise 24). On a shared store that
// is written down on this host, and told once a minute for all that were like it: a key that a
// crowd contends for is not written to by the crowd.
func (p *Place) contended(ctx context.Context, f Fire, res Result) {
	e := history.Event{Kind: "run-contended", Key: string(f.Key), Job: string(f.Key), Host: p.Self.Host,
		Reason: clean(fmt.Sprintf("%s: held by %s since %s", res.Reason, res.Held.Record.Holder, stamp(res.Held.Record.Acquired)))}
	if p.Descriptor == nil && p.Spool != nil {
		e.ID, e.At = run.NewID(), p.now()
		if p.Spool.Put(Item{Event: &e}) == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Keeper.Margin().RPCTimeout)
			defer cancel()
			if !p.sweeping.Load() {
				_ = p.Deliver(ctx) // else the next one does
			}
			return
		}
	}
	e.ID, e.At = "", time.Time{}
	p.Record(ctx, e)
}
