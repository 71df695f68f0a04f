package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/brake"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

const (
	// mostTries is how often servers try to start a tick that their hosts cannot start.
	mostTries = 10
	// gaveUp is how the reason of such a tick begins when there are no more tries.
	gaveUp = "given up: "
)

// errFault is the reason of a target that gives none.
var errFault = errors.New("this host could not start the work")

// unstarted completes the record of a run of which nothing was executed because of a fault of this host. over means
// that the tick can go to the other servers. A tick that ran before, and should have run again, ends as lost: it is
// never one that did not run (rule T3).
func (x *execution) unstarted(ctx context.Context, rec run.Record) (_ run.Record, over bool) {
	rec.Reason = "nothing was executed: " + x.fault.Error()
	switch {
	case x.Tick.IsZero():
		return rec, false
	case x.Again:
		rec.Outcome = run.Lost
		return rec, false
	}
	if n := x.tries(ctx); n >= mostTries {
		rec.Reason = fmt.Sprintf("%s%d tries: %s", gaveUp, n, rec.Reason)
		return rec, false
	}
	return rec, x.forOthers()
}

// unasked ends a tick whose condition could not be asked because of a fault of this host, or hands it over. A run that
// says so counts as a try. It is under a lease of its own: nobody who holds the job's key waits, or stops, for it.
func (x *execution) unasked(ctx context.Context, fault error) Result {
	x.fault = fmt.Errorf("the condition (when): %w", fault)
	l, rec, res := x.begin(ctx, x.beginAside)
	switch {
	case l == nil && res.anew != nil:
		return res
	case l == nil:
		if res.Outcome == run.Unavailable {
			res.Reason = fmt.Sprintf("nothing was executed: %s; nor could that be recorded: %s", x.fault, res.Reason)
		}
		res = x.refuse(ctx, res)
		res.fault = x.fault
		return res
	}
	rec.Outcome, rec.Ended = run.Unavailable, rec.Started
	return x.finish(ctx, l, rec)
}

// beginAside is one try to record the start of a run under a lease of its own.
func (x *execution) beginAside(ctx context.Context) (*lease.Lease, run.Record, Result) {
	l, res := got(x.b.Keeper.Acquire(ctx, lease.Want{Key: lease.OnceKey(), Holder: x.b.Self}))
	if l == nil {
		return nil, run.Record{}, res
	}
	rec, res, ok := x.start(ctx, l)
	if !ok {
		_ = l.Release(ctx)
		return nil, run.Record{}, res
	}
	return l, rec, Result{}
}

// forOthers reports whether other servers may start the tick, and have the time of a sweep for it.
func (x *execution) forOthers() bool {
	return x.others && !x.Late && x.b.now().Add(x.b.Keeper.Margin().TTL/sweepsPerTTL).Before(x.lastStart())
}

// tries returns how often the tick was tried to be started, this time included. If the store does not say, its time to
// start bounds the tries.
func (x *execution) tries(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	rows, err := x.b.History.Runs(ctx, history.Query{Job: string(x.Key), From: x.Tick.Add(-tick.Ahead), Limit: settleBatch})
	if err != nil {
		return 1
	}
	return 1 + len(slices.DeleteFunc(rows, func(r run.Record) bool { return !r.Tick.Equal(x.Tick) || r.Outcome != run.Unavailable }))
}

// handOver makes a tick that ended as unavailable under a lease a claim that nobody holds: a server takes it over
// within its time to start, as from one that died (rule T2). The claim is under a lease of its own, which is released.
func (x *execution) handOver(ctx context.Context, of lease.Ref) bool {
	patience := x.b.Keeper.Margin().RPCTimeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*patience)
	defer cancel()
	l, err := x.b.Keeper.Acquire(ctx, lease.Want{Key: lease.OnceKey(), Holder: x.b.Self})
	if err != nil {
		return false
	}
	defer l.Release(ctx) //nolint:errcheck // it lapses by itself
	// An answer may be lost: asked again, the store says that the claim is ours.
	for {
		once, cancel := context.WithTimeout(ctx, patience)
		a, err := x.b.Ticks.Take(once, tick.TakeRequest{Job: string(x.Key), At: x.Tick, From: of, Lease: l.Ref(), Claimant: x.b.Self,
			Fill: true, NotAfter: x.b.Keeper.NotAfter()})
		cancel()
		if err == nil && a.Status != tick.Late {
			return a.Status == tick.Won
		}
		select { // a process without descriptors may have to wait for one of its connections
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// brakes leave ticks to other servers while this host cannot start them: all ticks, or, if only its program is
// missing here, those of a job.
type brakes struct {
	log  *slog.Logger
	host brake.Brake
	mu   sync.Mutex
	jobs map[string]*brake.Brake
}

// of returns the brake of a job; nil: it was never on.
func (b *brakes) of(job string) *brake.Brake {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs[job]
}

// made returns the brake of a job.
func (b *brakes) made(job string) *brake.Brake {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.jobs[job]
	if of == nil {
		if of = new(brake.Brake); b.jobs == nil {
			b.jobs = map[string]*brake.Brake{}
		}
		b.jobs[job] = of
	}
	return of
}

// marks are those of a tick that was taken, at both brakes.
type marks struct{ host, job int }

func (b *brakes) taken(job string) (m marks) {
	m.host = b.host.Taken()
	if of := b.of(job); of != nil {
		m.job = of.Taken()
	}
	return m
}

// note learns from the end of a fire.
func (b *brakes) note(job string, res Result, m marks) {
	switch {
	case res.fault != nil && errors.Is(res.fault, fs.ErrNotExist):
		if pause, first := b.made(job).Fault(m.job); first {
			b.log.Error("this host lacks the program of a job: it leaves the job's ticks to other servers, and tries again after growing pauses",
				"event", "cannot-start", "job", job, "pause", pause, "most", brake.Longest, "error", res.fault)
		}
	case res.fault != nil:
		if pause, first := b.host.Fault(m.host); first {
			b.log.Error("this host can start no work: it leaves ticks to other servers, and tries again after growing pauses",
				"event", "cannot-start", "pause", pause, "most", brake.Longest, "error", res.fault)
		}
	case len(res.Run.Attempts) > 0:
		if b.host.Started(m.host) {
			b.log.Info("this host can start work again", "event", "starting-again")
		}
		if of := b.of(job); of != nil && of.Started(m.job) {
			b.log.Info("this host can start the job again", "event", "starting-again", "job", job)
		}
	}
}

// left returns for how long the ticks of a job are left to others.
func (b *brakes) left(job string) time.Duration {
	left := b.host.Left()
	if of := b.of(job); of != nil {
		left = max(left, of.Left())
	}
	return left
}

// try is the same for one that would start a tick now: after a pause it returns 0 to one caller.
func (b *brakes) try(job string) time.Duration {
	of := b.of(job)
	if of != nil {
		if left := of.Left(); left > 0 {
			return left // it must not use up the host's one try
		}
	}
	left := b.host.Try()
	if left == 0 && of != nil {
		left = of.Try()
	}
	return left
}

// on reports whether ticks of any job are left to others, or only tried, or were lately.
func (b *brakes) on() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	on := b.host.On()
	for _, of := range b.jobs {
		on = on || of.Lately()
	}
	return on
}
