package scheduler

// The way of one tick, from top to bottom: each step, the function below that takes it, its rules (docs/why/rules.md),
// and the files that know more of it.
//
//	turn     Server.claimInTurn  not beside a catch-up, and in this server's turn        T6, T8   catchup.go, turn.go
//	claim    Server.claim        the first one wins; none after the starting deadline    T1, T4   premature.go
//	when     execution.run       the job's own word whether to run                       T5
//	lease    execution.begin     as the policy has it; no pause has begun meanwhile      T5, T7   overlap.go, pause.go
//	start    execution.start     acknowledged before anything is executed                T1, T2   unanswered.go
//	work     execution.work      the attempts, guarded by the lease: its loss ends them  L2, T3   package run, handover.go
//	release  execution.finish    the outcome and the release, in one step; then hooks    T9, T13  report.go, notify.go
//
// Server.fire begins with a tick that is due (follow.go). A tick that was won and not started ends with
// execution.refuse (T5). Single and Trigger claim by themselves; a catch-up, a takeover (adopt.go) and a back-fill
// get their ticks in other ways. All of them go on with execution.run.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// fire claims one tick and carries it out if it wins.
func (s *Server) fire(accept, work context.Context, e *entry, at time.Time) {
	log := s.log.With("job", e.key(), "tick", stamp(at))
	changed := false
	defer func() {
		if changed {
			s.handBack(e, at)
		}
	}()
	letGo, first := s.hold(e.Spec.Key(), at)
	defer letGo()
	if !first {
		log.Debug("this server is already working on this tick", "event", "tick-in-hand")
		return
	}
	asked, a, err := s.claimInTurn(accept, e, at, log)
	if !asked {
		return
	}
	switch {
	case accept.Err() != nil && err != nil:
		return // shutting down: others have it
	case errors.Is(err, tick.ErrTooLate):
		log.Warn("too late to start; it becomes missed unless another server has claimed it", "event", "tick-late")
	case err != nil:
		log.Error("the store could not be used in time: nothing was started", "event", "tick-unavailable", "error", err)
		s.Stats.unavailable.Add(1)
		s.outbox.keep(Item{Unavailable: &Unclaimed{Job: e.Spec.Key(), At: at}}, err)
	case a.Status == tick.Won:
		s.Stats.won.Add(1)
		s.carryOut(accept, work, e, a.Tick, false)
	case a.Status == tick.Differs:
		changed = true
		s.doubt(e.root())
	case a.Status == tick.Early:
		log.Warn("the store's clock has stepped back and has not reached this tick yet; the tick starts then", "event", "tick-early")
	case a.Status == tick.Paused:
		s.Stats.paused.Add(1)
		log.Debug("the job is paused", "event", "tick-paused")
	default:
		s.Stats.raced.Add(1)
		log.Debug("another server has this tick", "event", "tick-taken", "status", a.Status.String(), "claimant", a.Tick.Claimant.String())
	}
}

// claimInTurn claims a tick when this server's turn has come. It does not claim a tick that is left to a catch-up,
// or that another server already has.
func (s *Server) claimInTurn(
	accept context.Context, e *entry, at time.Time, log *slog.Logger,
) (asked bool, a tick.Answer, err error) {
	s.claiming.Add(1)
	defer s.claiming.Add(-1)
	inTime := !s.b.now().After(s.b.startBy(e.Job, at))
	rest := min(s.brakes.try(e.Spec.Key()), s.b.startBy(e.Job, at).Sub(s.b.now())/2)
	pause(accept, rest)
	if s.catchUps.join(accept, e, at) {
		log.Debug("it joins the end of a catch-up", "event", "tick-joined")
		return false, a, nil
	}
	if rank := s.turn.rank(e.Spec.Key(), at); rank == 0 && rest <= 0 {
		answered := s.turn.share.begin()
		defer answered()
	} else if s.await(accept, e, at, rank) {
		s.Stats.raced.Add(1)
		log.Debug("another server has this tick", "event", "tick-taken")
		return false, a, nil
	}
	a, err = s.claim(accept, e, at, inTime)
	return true, a, err
}

// claim requests the tick until the store answers or it is too late to start. Early means that the store's clock has
// not reached the tick in all the time that it had to start.
func (s *Server) claim(ctx context.Context, e *entry, at time.Time, inTime bool) (tick.Answer, error) {
	w := tick.Want{Job: e.Spec.Key(), At: at, Generation: e.generation, StartBy: e.StartBy(at)}
	enough := time.NewTimer(max(s.b.startBy(e.Job, at).Sub(s.b.now()), 0)) // goes on where the store's clock steps back
	defer enough.Stop()
	for early := (tick.Answer{}); ; {
		a, err := s.b.Book.Claim(ctx, w)
		pause := min(s.b.Keeper.Margin().Heartbeat, time.Second)
		switch {
		case err == nil && s.unsettler.premature(ctx, w, a):
			select {
			case <-enough.C:
				a.Status = tick.Early
				return a, nil
			default:
			}
			if early = a; s.b.again(ctx, at, a.Status) {
				continue
			}
			return a, context.Cause(ctx)
		case err == nil:
			return a, nil
		case errors.Is(err, tick.ErrTooLate) && early.Status != 0:
			early.Status = tick.Early
			return early, nil
		case errors.Is(err, tick.ErrTooLate) && inTime:
			return a, fmt.Errorf("%w: this tick could not be claimed in time", lease.ErrUnavailable)
		case !errors.Is(err, lease.ErrUnavailable) || s.b.now().After(s.b.startBy(e.Job, at)):
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// carryOut fires a tick that this server has won. late is Fire.Late.
func (s *Server) carryOut(accept, work context.Context, e *entry, t tick.Tick, late bool) {
	letGo, _ := s.hold(e.Spec.Key(), t.At) // for who came by another way than fire
	defer letGo()
	f, done := e.fire(t.At)
	defer done()
	f.Claim, f.Again, f.Accept, f.Late, f.others = t.Lease, t.Reruns > 0, accept, late, true
	if !late && !f.Again {
		f.StartBy = e.StartBy(t.At)
	}
	log := s.log.With("job", f.Key, "tick", stamp(t.At), "run_id", f.RunID)
	f.OnStart = func(r run.Record) { log.Info("started", "event", "run-started", "token", r.Token) }
	taken := s.brakes.taken(e.Spec.Key())
	res := s.execute(work, f)
	if res.anew != nil {
		s.carryOut(accept, work, e, *res.anew, late)
		return
	}
	s.brakes.note(e.Spec.Key(), res, taken)
	s.Stats.count(res)
	switch {
	case res.handedOver:
		log.Warn("this host could not start it: it goes to the other servers", "event", "tick-handed-over", "reason", res.Reason)
	case res.Run.ID != "":
		log.Log(work, levelOf(res.Outcome), string(res.Outcome), "event", "run-ended", "outcome", res.Outcome, "reason", res.Reason, "took", res.Run.Ended.Sub(res.Run.Started).Round(time.Millisecond))
	case res.Taken != nil:
		log.Info("another server took this tick over", "event", "tick-taken")
	case res.Outcome != "" && res.Held == nil: // else the event of the skip is logged, with the holder
		log.Log(work, levelOf(res.Outcome), "the tick was not run", "event", "tick-"+string(res.Outcome), "reason", res.Reason)
	}
	switch {
	case res.Err == nil:
	case res.Run.ID == "" && stopped(accept, res.Err):
		log.Info("the tick was not started, because this server stops; another one may run it", "event", "tick-left")
	default:
		log.Error("the tick could not be run", "error", res.Err)
	}
}

// stopped reports whether err says no more than that ctx has ended.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}

// Fire carries out f at this backend: the lease, the start, the work, and its outcome together with the release.
// When ctx ends, the work is told to stop; Fire returns once the work has ended and its outcome is recorded or
// spooled.
func (b *Backend) Fire(ctx context.Context, f Fire) Result {
	defer b.FlushHooks(aside.FlushTime)
	return b.parts().execute(ctx, f)
}

// execute is Fire, but waits for no hook.
func (p *parts) execute(ctx context.Context, f Fire) Result {
	x := &execution{parts: p, Fire: f}
	return x.run(ctx)
}

// execution carries out one Fire.
type execution struct {
	*parts
	Fire
	tail     *tail           // the end of Output, for hooks
	previous *previousLookup // for Previous
	fault    error           // why this host could start nothing
}

// run takes a fire from its claim, if it has one, to its end.
func (x *execution) run(ctx context.Context) Result {
	if x.RunID == "" {
		x.RunID = run.NewID()
	}
	if x.Accept == nil {
		x.Accept = ctx
	}
	if x.Output == nil {
		x.Output = io.Discard
	}
	defer x.pace()()
	x.keepTail()
	if x.When != nil && !x.Tick.IsZero() && !x.Again {
		yes, err := x.When(x.Accept)
		switch cause := context.Cause(x.Accept); {
		case yes:
		case cause != nil:
			return Result{Err: cause} // it was called off: another server asks for itself
		case err != nil:
			return x.unasked(ctx, err)
		default:
			return x.refuse(ctx, Result{Outcome: run.Skipped, Reason: run.ReasonWhen})
		}
	}
	x.previous = x.lookUpPrevious()
	defer x.previous.drop()
	begun := x.b.now()
	l, rec, res := x.begin(ctx, func(ctx context.Context) (*lease.Lease, run.Record, Result) { return x.beginOnce(ctx, begun) })
	if l == nil && res.anew != nil {
		return res
	}
	if l == nil {
		return x.refuse(ctx, res)
	}
	// The fire was canceled while the start was on its way. A tick that a draining server has begun continues, like
	// those that began before.
	if x.Accept.Err() != nil && (ctx.Err() != nil || x.Claim == (lease.Ref{})) {
		rec.Outcome, rec.Reason, rec.Ended = run.Canceled, context.Cause(x.Accept).Error(), rec.Started
		res := x.finish(ctx, l, rec)
		res.Err = errors.Join(res.Err, context.Cause(x.Accept))
		return res
	}
	if x.OnStart != nil {
		x.OnStart(rec)
	}
	over := x.notifier.started(rec, x.Late || x.Again)
	beside := x.beside(ctx, l)
	defer beside.end() // after the release, which waits for nothing of it
	rec, recorded := x.work(ctx, l, rec)
	defer recorded()
	over()
	beside.released.Store(true)
	return x.finish(ctx, l, rec)
}

// begin calls once, which gets a lease and records the start under it, or returns what happens to the tick instead.
// While the store keeps a tick from being started, begin calls it again, until the tick's time is up.
func (x *execution) begin(ctx context.Context, once func(context.Context) (*lease.Lease, run.Record, Result)) (*lease.Lease, run.Record, Result) {
	for {
		l, rec, res := once(ctx)
		if l != nil || !res.again || !x.b.now().Before(x.lastStart()) {
			return l, rec, res
		}
		x.b.log().Warn("the store did not accept the start of this tick; trying again", "event", "start-delayed", "job", x.Key, "tick", stamp(x.Tick), "error", res.Reason)
		select {
		case <-x.Accept.Done():
			return nil, run.Record{}, Result{Err: context.Cause(x.Accept)}
		case <-time.After(min(x.b.Keeper.Margin().Heartbeat, time.Second)):
		}
	}
}

// beginOnce is one try. It holds no lease if it returns none.
func (x *execution) beginOnce(ctx context.Context, begun time.Time) (*lease.Lease, run.Record, Result) {
	c := contender{x.parts, x.Fire}
	l, res := c.acquire()
	if l == nil {
		return nil, run.Record{}, res
	}
	if res, paused := x.pausedMeanwhile(ctx, begun); paused {
		_ = l.Release(ctx)
		return nil, run.Record{}, res
	}
	if x.Due != nil {
		if err := x.Due(x.Accept); err != nil {
			_ = l.Release(ctx)
			return nil, run.Record{}, Result{Err: err}
		}
	}
	x.previous.begin(ctx)
	rec, res, ok := x.start(ctx, l)
	if !ok {
		_ = l.Release(ctx)
		return nil, run.Record{}, res
	}
	return l, rec, Result{}
}

// start records the start; nothing may be executed unless it returns true (rule T1).
func (x *execution) start(ctx context.Context, l *lease.Lease) (run.Record, Result, bool) {
	now, err := x.b.Keeper.Now(ctx)
	if err != nil {
		return run.Record{}, refusedStart(err), false
	}
	rec := run.Record{ID: x.RunID, Job: string(x.Key), Tick: x.Tick, Owner: l.Ref().Owner, Token: l.Token(),
		Host: x.b.Self.Host, PID: x.b.Self.PID, Command: clean(x.Command), Started: now.Truncate(time.Microsecond), Cause: x.Cause}
	claim := x.Claim
	if x.Tick.IsZero() {
		claim = x.Gate
	}
	a, err := x.b.Book.Start(ctx, claim, rec, l, x.lastStart())
	switch {
	case err != nil:
		return rec, x.disown(ctx, l, rec, err), false
	case a.Status == tick.Taken:
		return rec, Result{Taken: &a.Tick}, false
	case a.Status != tick.Won:
		return rec, refusedStart(fmt.Errorf("%w: the start was answered %q", lease.ErrUnavailable, a.Status)), false
	}
	return rec, Result{}, true
}

// work runs the attempts under the guard. Call the returned function once the outcome is recorded.
func (x *execution) work(ctx context.Context, l *lease.Lease, rec run.Record) (run.Record, func()) {
	guard := lease.Guard{Keeper: x.b.Keeper, OnOverrun: x.b.OnOverrun}
	call := run.Call{Run: rec, Lease: l, IdempotencyKey: cmp.Or(x.IdempotencyKey, idempotency(rec)),
		StopGrace: x.Policy.StopGrace, Output: x.Output}
	x.previous.complete(&call)
	recorded, started := func() {}, false
	err := guard.Hold(ctx, l, func(ctx context.Context, l *lease.Lease) error {
		started = true
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(wantedContext(ctx, l), func() { cancel(run.ErrReplaced) })
		defer stop()
		rec.Attempts, rec.Outcome, rec.Reason, recorded = run.Attempts(ctx, locked{x}, call, x.Limits, x.b.now)
		return nil
	})
	if errors.Is(err, lease.ErrLost) && rec.Outcome != run.Unavailable {
		rec.Outcome, rec.Reason = run.Lost, lostReason(l, err)
	}
	if !started {
		rec.Outcome, rec.Reason = unexecuted(x.Policy), "nothing was executed: "+rec.Reason
	}
	rec.Ended = x.b.now().Truncate(time.Microsecond)
	return rec, recorded
}

// finish records the outcome together with the release.
func (x *execution) finish(ctx context.Context, l *lease.Lease, rec run.Record) Result {
	over := false
	if rec.Outcome == run.Unavailable && x.fault != nil {
		rec, over = x.unstarted(ctx, rec)
	}
	rec.Reason = clean(rec.Reason)
	for i := range rec.Attempts {
		rec.Attempts[i].Error = clean(rec.Attempts[i].Error)
	}
	res := Result{Run: rec, Outcome: rec.Outcome, Reason: rec.Reason, fault: x.fault}
	l.Ending()
	a, what, err := x.reporter.report(ctx, tick.CloseRequest{Run: rec, Claim: l.Ref(), Release: l.Ref()}, l)
	l.Drop()
	switch {
	case rec.Outcome != run.Unavailable || a.Status != tick.Won:
	case x.fault == nil:
		res.anew = x.anew(ctx, l.Ref())
	case over:
		res.handedOver = x.handOver(ctx, l.Ref())
	}
	if res.anew == nil && !res.handedOver {
		x.notifier.outcome(what, rec, "", x.tail.kept())
	} else {
		handed := rec
		handed.Outcome = observe.HandedOver
		x.notifier.observe(handed, observe.Ended, 1)
	}
	switch {
	case err != nil:
		res.Err = err
	case a.Status == tick.Taken && rec.Outcome != run.Lost:
		// The record was no longer this process's to write: another one concluded that it was gone.
		x.b.log().Warn("this run's outcome came too late; the tick has another outcome", "job", rec.Job, "tick", stamp(rec.Tick), "run_id", rec.ID, "outcome", rec.Outcome)
	}
	return res
}
