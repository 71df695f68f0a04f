package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// lastStart is the same for a fire.
func (x *execution) lastStart() time.Time { return x.b.Keeper.Extend(x.Tick, x.StartBy) }

// refuse closes the tick of a fire that got no lease. A lost race for it is not recorded (rule T6).
func (x *execution) refuse(ctx context.Context, res Result) Result {
	if x.Tick.IsZero() && res.Held != nil {
		x.contended(ctx, res)
	}
	if x.Tick.IsZero() || res.Outcome == "" {
		return res
	}
	req := tick.CloseRequest{Claim: x.Claim, Run: run.Record{Job: string(x.Key), Tick: x.Tick,
		Owner: x.Claim.Owner, Token: x.Claim.Token, Host: x.b.Self.Host, Outcome: res.Outcome, Reason: res.Reason}}
	if x.Again { // a tick that ran was not skipped
		last, err := x.reaper.lastRun(ctx, req.Run.Job, x.Tick)
		if err != nil {
			x.b.log().Warn("the end of its last run is unknown; recording it as crashed", "job", x.Key, "tick", stamp(x.Tick), "error", err)
		}
		req.Run = notAgain(req.Run, last)
	}
	req.Run.Reason = clean(req.Run.Reason)
	_, what, err := x.reporter.report(x.Accept, req, nil)
	if err != nil {
		res.Err = errors.Join(res.Err, err)
	}
	heldBy := ""
	if res.Held != nil {
		heldBy = res.Held.Record.Holder.String()
		x.recorder.event(ctx, x.skipEvent(res))
	}
	x.notifier.outcome(what, req.Run, heldBy, nil)
	return res
}

// contended records that a run without a tick found its key held (promise 24). On a shared store, the event is
// written on this host, and delivered once a minute for all equal ones, so that many contenders do not cause many
// writes.
func (x *execution) contended(ctx context.Context, res Result) {
	e := history.Event{Kind: "run-contended", Key: string(x.Key), Job: string(x.Key), Host: x.b.Self.Host,
		Reason: clean(fmt.Sprintf("%s: held by %s since %s", res.Reason, res.Held.Record.Holder, stamp(res.Held.Record.Acquired)))}
	if x.b.Descriptor == nil && x.b.Spool != nil {
		e.ID, e.At = run.NewID(), x.b.now()
		if x.b.Spool.Put(Item{Event: &e}) == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.b.Keeper.Margin().RPCTimeout)
			defer cancel()
			if !x.outbox.sweeping.Load() {
				_ = x.b.Deliver(ctx) // else the next one does
			}
			return
		}
	}
	e.ID, e.At = "", time.Time{}
	x.recorder.record(ctx, e)
}

// locked gives each attempt the lease's lock, if the backend has one.
type locked struct{ *execution }

func (t locked) Attempt(ctx context.Context, c run.Call) run.Result {
	if t.b.Descriptor != nil {
		f, err := t.b.Descriptor(c.Lease.Ref())
		if err != nil { // this process lacks descriptors, or has lost the lease
			t.fault = fmt.Errorf("the lease's lock: %w", err)
			return run.Result{Outcome: run.Unavailable, Err: t.fault, Final: true}
		}
		c.Lock = f
		// With retries this process keeps the lock, so that it is held between two attempts.
		if t.Limits.Attempts <= 1 && t.b.Detach != nil {
			c.Detach = func() error { return t.b.Detach(c.Lease.Ref()) }
		}
	}
	r := t.Target.Attempt(ctx, c)
	if r.Outcome == run.Unavailable {
		t.fault = cmp.Or(r.Err, errFault)
	}
	return r
}

// idempotency is stable per tick, so that an application can recognise a rerun (rule T3).
func idempotency(r run.Record) string {
	if r.Tick.IsZero() {
		return r.ID
	}
	return r.Job + "@" + r.Tick.UTC().Format(time.RFC3339Nano)
}

func lostReason(l *lease.Lease, err error) string {
	if loss := l.Loss().Err; loss != nil {
		err = loss
	}
	return err.Error()
}

// levelOf returns the log level of an outcome: an intended outcome is INFO, a tick that should have run and did not
// is WARN, a run that did not end well is ERROR.
func levelOf(o run.Outcome) slog.Level {
	switch o {
	case run.Failed, run.TimedOut, run.Lost, run.Crashed:
		return slog.LevelError
	case run.Missed, run.Unavailable:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (x *execution) skipEvent(res Result) history.Event {
	return history.Event{Kind: "tick-skipped", Key: string(x.Key), Job: string(x.Key), Tick: x.Tick,
		Reason: fmt.Sprintf("%s: held by %s since %s", res.Reason, res.Held.Record.Holder, stamp(res.Held.Record.Acquired))}
}
