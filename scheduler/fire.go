package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Fire is one fire of a job: what is to run once, under which lease and policy.
type Fire struct {
	// Key is the job's name and the key of its lease.
	Key lease.Key
	// Tick is its scheduled instant and Claim the lease under which it was claimed; zero for a
	// run without a tick.
	Tick  time.Time
	Claim lease.Ref
	// Again says that the tick's run crashed, and that it is run again.
	Again bool

	Target run.Target
	Policy job.Policy
	Limits run.Limits
	// Command describes the work to people who look at the lease.
	Command string
	// Holder completes what Place.Self says, for the run with this id, before the lease is asked for: compute it and
	// return. Nil: nothing to add.
	Holder func(key lease.Key, runID string) lease.Holder
	// RunID of the run. Default: a new one.
	RunID string
	// IdempotencyKey is what the work is told, so that a repetition can be recognised (rule T3).
	// Default: one that is stable per tick; without a tick, the run's id.
	IdempotencyKey string
	// Previous has the work be told when the job succeeded last, as far as history tells in time.
	Previous bool
	// Wait is how long to wait for the lease under Forbid, as lease.Want has it.
	Wait time.Duration
	// StartBy is the store instant until which a tick that the store did not let begin is tried again.
	// Zero: it is tried once. The time in which the store holds grants back is added to it.
	StartBy time.Time
	// Late says that the tick is run after all: it waits for the lease for as long as it takes, skips
	// nothing and asks nobody to stop, whatever the policy (but for Allow, which waits for nobody).
	Late bool
	// Cause is the run's: who asked for it, if no schedule did.
	Cause *run.Cause
	// Accept ends the wait for the lease, though not a run, when it is done. Default: Fire's context.
	Accept context.Context
	// Output takes what the work prints, one Write at a time. A slow one slows the work down. One that takes
	// nothing for a second is waited for no longer: what is printed until it does is dropped, and the log says
	// how much. A Write that has not returned by the end of the fire goes on beside it. One that is a
	// run.Streams gets a command's standard error apart, if it wants to. Default: nowhere.
	Output io.Writer
	// When, where not nil, is asked once whether to run the tick that was won: false skips it. It is not asked
	// again for a run that crashed, nor of a run without a tick. No lease is held meanwhile, but the tick waits
	// for the answer: it must come soon once the context has ended.
	When func(context.Context) bool
	// Due, where not nil, is asked once the lease is had, after whatever wait that took, and before the start is
	// recorded: an error ends the fire, and nothing is started. The lease is held meanwhile: bound it.
	Due func(context.Context) error
	// Gate, of a run without a tick, is a lease that must be live at its start, beside the run's own: what was found
	// to be due under it still is then. Zero: there is none.
	Gate lease.Ref
	// OnStart is the first part of the work: it is called under the lease, and nothing is executed before it
	// has returned. Who only wants to know has Place.Hooks.
	OnStart func(run.Record)

	tail *tail     // the end of Output, for hooks
	back *lookBack // for Previous
}

// Result is what became of a Fire.
type Result struct {
	// Run is the run's record with its outcome; its ID is empty if nothing was started.
	Run run.Record
	// Outcome is the tick's: that of the run, or why there was none.
	Outcome run.Outcome
	Reason  string
	// Held is who had the lease when Outcome is Skipped.
	Held *lease.HeldError
	// Taken is set when another server took the tick over before the start.
	Taken *tick.Tick
	// Err is an error of ours or of the store's; the work's own is in Run.
	Err error

	again bool // the store kept it from being started, for certain: it can be tried again
	// anew is the tick where a run of it was recorded and nothing executed, and this process has claimed it once more:
	// it is to be fired again, as another run.
	anew *tick.Tick
}

// Fire carries out f at this place: the lease, the start, the work, and its outcome with the
// release in one step. When ctx ends the work is told to stop; Fire returns once it is gone and
// its outcome recorded or spooled.
func (p *Place) Fire(ctx context.Context, f Fire) Result {
	defer p.FlushHooks(aside.FlushTime)
	return p.fire(ctx, f)
}

func (p *Place) fire(ctx context.Context, f Fire) Result {
	if f.RunID == "" {
		f.RunID = run.NewID()
	}
	if f.Accept == nil {
		f.Accept = ctx
	}
	if f.Output == nil {
		f.Output = io.Discard
	}
	defer p.pace(&f)()
	p.keepTail(&f)
	if f.When != nil && !f.Tick.IsZero() && !f.Again && !f.When(f.Accept) {
		if err := context.Cause(f.Accept); err != nil {
			return Result{Err: err} // it was called off: another server asks for itself
		}
		return p.refuse(ctx, f, Result{Outcome: run.Skipped, Reason: run.ReasonWhen})
	}
	f.back = p.lookBack(f)
	defer f.back.drop()
	l, rec, res := p.begin(ctx, f)
	if l == nil && res.anew != nil {
		return res
	}
	if l == nil {
		return p.refuse(ctx, f, res)
	}
	// It was called off while the start was on its way. A tick that a draining server has begun goes on, as those that
	// began before it do.
	if f.Accept.Err() != nil && (ctx.Err() != nil || f.Claim == (lease.Ref{})) {
		rec.Outcome, rec.Reason, rec.Ended = run.Canceled, context.Cause(f.Accept).Error(), rec.Started
		res := p.finish(ctx, f, l, rec)
		res.Err = errors.Join(res.Err, context.Cause(f.Accept))
		return res
	}
	if f.OnStart != nil {
		f.OnStart(rec)
	}
	over := p.tellStart(rec)
	beside := p.beside(ctx, f, l)
	defer beside.end() // after the release, which waits for nothing of it
	rec, recorded := p.work(ctx, f, l, rec)
	defer recorded()
	over()
	beside.released.Store(true)
	return p.finish(ctx, f, l, rec)
}

// begin gets the lease and records the start under it, or says what becomes of the tick instead. While
// the store keeps a tick from being started, it is tried again until its time is up.
func (p *Place) begin(ctx context.Context, f Fire) (*lease.Lease, run.Record, Result) {
	for begun := p.now(); ; {
		l, rec, res := p.beginOnce(ctx, f, begun)
		if l != nil || !res.again || !p.now().Before(p.lastStart(f)) {
			return l, rec, res
		}
		p.log().Warn("the store did not accept the start of this tick; trying again", "event", "start-delayed", "job", f.Key, "tick", stamp(f.Tick), "error", res.Reason)
		select {
		case <-f.Accept.Done():
			return nil, run.Record{}, Result{Err: context.Cause(f.Accept)}
		case <-time.After(min(p.Keeper.Margin().Heartbeat, time.Second)):
		}
	}
}

func (p *Place) beginOnce(ctx context.Context, f Fire, begun time.Time) (*lease.Lease, run.Record, Result) {
	l, res := p.overlap(f)
	if l == nil {
		return nil, run.Record{}, res
	}
	if res, paused := p.pausedMeanwhile(ctx, f, begun); paused {
		_ = l.Release(ctx)
		return nil, run.Record{}, res
	}
	if f.Due != nil {
		if err := f.Due(f.Accept); err != nil {
			_ = l.Release(ctx)
			return nil, run.Record{}, Result{Err: err}
		}
	}
	f.back.begin(ctx)
	rec, res, ok := p.start(ctx, f, l)
	if !ok {
		_ = l.Release(ctx)
		return nil, run.Record{}, res
	}
	return l, rec, Result{}
}

// pausedMeanwhile looks, after a wait for the lease, whether the job was paused since its tick was
// claimed: a pause begins no run (rule T8). Running a tick again goes on what began before it.
func (p *Place) pausedMeanwhile(ctx context.Context, f Fire, begun time.Time) (Result, bool) {
	if f.Tick.IsZero() && !f.Late || f.Again || p.now().Sub(begun) < p.Keeper.Margin().Heartbeat/2 {
		return Result{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, p.Keeper.Margin().RPCTimeout)
	defer cancel()
	known, ok, err := p.registered(ctx, string(f.Key))
	if err != nil || !ok || !known.Pause.Covers(p.now()) {
		return Result{}, false
	}
	res := Result{Outcome: run.Paused, Reason: PausedBy(known.Pause)}
	if f.Late && !known.Pause.Covers(f.Tick) { // it is not the pause's own, and can be run after it
		res.Outcome, res.Reason = run.Missed, "it waited for its turn when the job was "+res.Reason
	}
	return res, true
}

// refuse closes the tick of a fire that got no lease. A lost race for it is nothing (rule T6).
func (p *Place) refuse(ctx context.Context, f Fire, res Result) Result {
	if f.Tick.IsZero() && res.Held != nil {
		p.contended(ctx, f, res)
	}
	if f.Tick.IsZero() || res.Outcome == "" {
		return res
	}
	req := tick.CloseRequest{Claim: f.Claim, Run: run.Record{Job: string(f.Key), Tick: f.Tick,
		Owner: f.Claim.Owner, Token: f.Claim.Token, Host: p.Self.Host, Outcome: res.Outcome, Reason: res.Reason}}
	if f.Again { // a tick that ran was not skipped
		last, err := p.lastRun(ctx, req.Run.Job, f.Tick)
		if err != nil {
			p.log().Warn("how its last run ended is not known; it is taken for crashed", "job", f.Key, "tick", stamp(f.Tick), "error", err)
		}
		req.Run = notAgain(req.Run, last)
	}
	req.Run.Reason = clean(req.Run.Reason)
	_, what, err := p.report(f.Accept, req, nil)
	if err != nil {
		res.Err = errors.Join(res.Err, err)
	}
	heldBy := ""
	if res.Held != nil {
		heldBy = res.Held.Record.Holder.String()
		p.Event(ctx, skipEvent(f, res))
	}
	p.tellNews(what, req.Run, heldBy, nil)
	return res
}

// start records the start; nothing may be executed unless it returns true (rule T1).
func (p *Place) start(ctx context.Context, f Fire, l *lease.Lease) (run.Record, Result, bool) {
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return run.Record{}, refusedStart(err), false
	}
	rec := run.Record{ID: f.RunID, Job: string(f.Key), Tick: f.Tick, Owner: l.Ref().Owner, Token: l.Token(),
		Host: p.Self.Host, PID: p.Self.PID, Command: clean(f.Command), Started: now.Truncate(time.Microsecond), Cause: f.Cause}
	claim := f.Claim
	if f.Tick.IsZero() {
		claim = f.Gate
	}
	a, err := p.Book.Start(ctx, claim, rec, l, p.lastStart(f))
	switch {
	case err != nil:
		return rec, p.disown(ctx, f, l, rec, err), false
	case a.Status == tick.Taken:
		return rec, Result{Taken: &a.Tick}, false
	case a.Status != tick.Won:
		return rec, refusedStart(fmt.Errorf("%w: the start was answered %q", lease.ErrUnavailable, a.Status)), false
	}
	return rec, Result{}, true
}

// disown reports that a run was not executed whose start was not acknowledged: it may have been carried out.
// Where it was not, the store has no such run, and nothing comes of the report: a tick that is still claimed
// for this process can begin again then. As long as it may, the report is not given up.
func (p *Place) disown(ctx context.Context, f Fire, l *lease.Lease, rec run.Record, cause error) Result {
	rec.Outcome, rec.Reason = unexecuted(f), clean("nothing was executed: the start was not answered: "+cause.Error())
	rec.Ended = p.now().Truncate(time.Microsecond)
	patience := max(p.lastStart(f).Sub(p.now()), p.Keeper.Margin().RPCTimeout)
	a, what, err := p.reportFor(ctx, tick.CloseRequest{Run: rec, Claim: l.Ref(), Release: l.Ref()}, nil, patience)
	res := notStarted(cause)
	switch {
	case err != nil || a.Status == 0: // it is in the log, or in the spool
	case a.Status == tick.Won:
		if res.anew = p.anew(ctx, f, l.Ref()); res.anew == nil {
			p.tellNews(what, rec, "", nil)
		}
	case !f.Tick.IsZero() && a.Tick.State == tick.Claimed && a.Tick.Lease == f.Claim:
		res.again = true
	case !f.Tick.IsZero() && a.Tick.State != "" && a.Tick.RunID != rec.ID:
		return Result{Taken: &a.Tick}
	}
	return res
}

// anew claims a tick once more that has ended as unavailable, since nothing was executed of the run that was recorded
// under a lease, as long as its time to start is not over. Only one can win that (rule T8).
func (p *Place) anew(ctx context.Context, f Fire, of lease.Ref) *tick.Tick {
	if f.Tick.IsZero() || f.Again || !p.now().Before(p.lastStart(f)) || f.Accept.Err() != nil {
		return nil
	}
	if known, ok, err := p.registered(ctx, string(f.Key)); err != nil || !ok || known.Pause.Covers(p.now()) {
		return nil
	}
	a, err := p.Book.Fill(ctx, tick.Tick{Job: string(f.Key), At: f.Tick, Lease: of})
	if err != nil || a.Status != tick.Won {
		return nil
	}
	p.log().Warn("nothing of this run was executed, and there is time left: the tick starts again", "event", "tick-anew",
		"job", f.Key, "tick", stamp(f.Tick), "run_id", f.RunID)
	return &a.Tick
}

// unexecuted is the outcome of a run of which nothing was executed: there was no run to lose. A tick that is run again
// after a loss keeps its second chance, though.
func unexecuted(f Fire) run.Outcome {
	if f.Policy.OnCrash == job.CrashRerun {
		return run.Lost
	}
	return run.Unavailable
}

// notStarted is the result of a start that was not acknowledged.
func notStarted(err error) Result {
	return Result{Outcome: run.Unavailable, Reason: "the start could not be recorded: " + err.Error(), Err: err}
}

// refusedStart is the result of a start that was certainly not carried out.
func refusedStart(err error) Result {
	res := notStarted(err)
	res.again = true
	return res
}

// work runs the attempts under the guard. What it returns beside the record is to be called once
// the outcome is recorded.
func (p *Place) work(ctx context.Context, f Fire, l *lease.Lease, rec run.Record) (run.Record, func()) {
	guard := lease.Guard{Keeper: p.Keeper, OnOverrun: p.OnOverrun}
	call := run.Call{Run: rec, Lease: l, IdempotencyKey: cmp.Or(f.IdempotencyKey, idempotency(rec)),
		StopGrace: f.Policy.StopGrace, Output: f.Output}
	f.back.tell(&call)
	recorded, started := func() {}, false
	err := guard.Hold(ctx, l, func(ctx context.Context, l *lease.Lease) error {
		started = true
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(wantedContext(ctx, l), func() { cancel(run.ErrReplaced) })
		defer stop()
		rec.Attempts, rec.Outcome, rec.Reason, recorded = run.Attempts(ctx, locked{p, f}, call, f.Limits, p.now)
		return nil
	})
	if errors.Is(err, lease.ErrLost) {
		rec.Outcome, rec.Reason = run.Lost, lostReason(l, err)
	}
	if !started {
		rec.Outcome, rec.Reason = unexecuted(f), "nothing was executed: "+rec.Reason
	}
	rec.Ended = p.now().Truncate(time.Microsecond)
	return rec, recorded
}

func lostReason(l *lease.Lease, err error) string {
	if loss := l.Loss().Err; loss != nil {
		err = loss
	}
	return err.Error()
}

// locked gives each attempt the lease's lock, where the place has such a thing.
type locked struct {
	place *Place
	fire  Fire
}

func (t locked) Attempt(ctx context.Context, c run.Call) run.Result {
	if t.place.Descriptor != nil {
		f, err := t.place.Descriptor(c.Lease.Ref())
		if err != nil {
			return run.Result{Outcome: run.Failed, Err: fmt.Errorf("the lease's lock: %w", err)}
		}
		c.Lock = f
		// With retries this process keeps the lock, so that it is held between two attempts.
		if t.fire.Limits.Attempts <= 1 && t.place.Detach != nil {
			c.Detach = func() error { return t.place.Detach(c.Lease.Ref()) }
		}
	}
	return t.fire.Target.Attempt(ctx, c)
}

// idempotency is stable per tick, so that an application can recognise a re-run (rule T3).
func idempotency(r run.Record) string {
	if r.Tick.IsZero() {
		return r.ID
	}
	return r.Job + "@" + r.Tick.UTC().Format(time.RFC3339Nano)
}

// finish records the outcome together with the release.
func (p *Place) finish(ctx context.Context, f Fire, l *lease.Lease, rec run.Record) Result {
	rec.Reason = clean(rec.Reason)
	for i := range rec.Attempts {
		rec.Attempts[i].Error = clean(rec.Attempts[i].Error)
	}
	res := Result{Run: rec, Outcome: rec.Outcome, Reason: rec.Reason}
	a, what, err := p.report(ctx, tick.CloseRequest{Run: rec, Claim: l.Ref(), Release: l.Ref()}, l)
	l.Drop()
	if rec.Outcome == run.Unavailable && a.Status == tick.Won {
		res.anew = p.anew(ctx, f, l.Ref())
	}
	if res.anew == nil {
		p.tellNews(what, rec, "", f.tail.kept())
	}
	switch {
	case err != nil:
		res.Err = err
	case a.Status == tick.Taken && rec.Outcome != run.Lost:
		// The record was no longer ours to write: somebody concluded that we were gone.
		p.log().Warn("this run's outcome came too late; the tick has another outcome", "job", rec.Job, "tick", stamp(rec.Tick), "run_id", rec.ID, "outcome", rec.Outcome)
	}
	return res
}

// report tells the store an outcome, again and again while the lease is good: as long as nobody
// was told, the lease stays renewed and nobody else starts. When that has lasted for two TTLs, when
// the lease is lost, or at the end of a shutdown, the outcome is spooled (rule T9). An outcome
// without a lease is tried for one rpc timeout. what is close's.
func (p *Place) report(ctx context.Context, req tick.CloseRequest, l *lease.Lease) (a tick.Answer, what news, err error) {
	if l != nil {
		return p.reportFor(ctx, req, l, 2*p.Keeper.Margin().TTL)
	}
	return p.reportFor(ctx, req, nil, p.Keeper.Margin().RPCTimeout)
}

// reportFor is report with a patience of its own. An answer without a status: it was spooled.
func (p *Place) reportFor(ctx context.Context, req tick.CloseRequest, l *lease.Lease, patience time.Duration) (a tick.Answer, what news, err error) {
	var lost <-chan struct{}
	if l != nil {
		lost = l.Lost()
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, p.Keeper.Margin().Heartbeat) {
		if a, what, err = p.close(ctx, req, isClosed(lost)); err == nil {
			return a, what, nil
		}
		if pause == 50*time.Millisecond {
			p.log().Warn("an outcome cannot be recorded yet", "event", "outcome-delayed", "job", req.Run.Job, "run_id", req.Run.ID, "error", err)
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
		p.spool(Item{Close: &req}, err)
		if l != nil {
			_ = l.Release(ctx) // the outcome is safe on this host, and the key need not wait for the TTL
		}
		return tick.Answer{}, noNews, nil
	}
}

// isClosed says so of a channel that is closed some day; nil never is.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// clean makes text of any origin fit for every store: valid UTF-8 without NUL.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
