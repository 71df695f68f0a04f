package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
)

// A Backfill runs a range of a job's ticks by hand (rule T12). It runs each tick that has no run yet as an ordinary
// tick, so that the tick runs once even if other processes ask for it too.
type Backfill struct {
	// ID identifies the back-fill in what it records. With Force, ticks that already ran under it are not run again.
	ID string
	// From and To bound the ticks: [From, To).
	From, To time.Time
	// Skipped also runs ticks that were skipped for another reason than their windows.
	Skipped bool
	// Force also runs ticks that have a run, were skipped or paused, or are older than what history keeps: once
	// more, each as a run beside the tick, whose outcome stays.
	Force bool
	// Limit is how many ticks are run at most; 0: all. Concurrency is how many run at once; default 1.
	Limit, Concurrency int
	// By and Why are for people.
	By, Why string
}

// Doing is what a back-fill does with a tick.
type Doing string

// The values of Doing.
const (
	Leave Doing = "leave"
	Fill  Doing = "fill"  // run the tick
	Again Doing = "again" // run it once more, beside its outcome
)

// A Step is one tick of a back-fill.
type Step struct {
	At time.Time
	// Was is the tick's outcome, or its state; empty: nobody has claimed it.
	Was string
	Do  Doing
	// Why says why the tick is left out.
	Why string
}

// ErrOtherDefinition is returned for a back-fill whose definition of the job is not the registered one.
var ErrOtherDefinition = errors.New("the store holds another definition of this job")

// ErrLimit is returned by a back-fill that has run Limit ticks and found one more.
var ErrLimit = errors.New("the limit is reached")

// backfilling is a back-fill in progress.
type backfilling struct {
	*parts
	Backfill
	job        *Job
	generation int64
	again      map[int64]bool // what ran under this id before, with Force
	left       func() bool    // whether the limit allows one more

	mu     sync.Mutex // report is called by one at a time
	report func(Step, Result)
}

// Backfill carries out fill. report is called, one call at a time, for each tick, when it is decided or its run has
// ended. When accept ends, no further tick is begun; when work ends, running ones end too.
func (b *Backend) Backfill(accept, work context.Context, j *Job, fill Backfill, report func(Step, Result)) error {
	p := b.parts()
	known, err := p.registry.sameAs(accept, j)
	if err != nil {
		return err
	}
	f := &backfilling{parts: p, Backfill: fill, job: j, generation: known.Generation, report: report}
	f.left = countdown(fill.Limit)
	if fill.Force {
		// Runs beside their ticks have no claim that excludes others: so only one back-fill at a time makes them.
		l, err := b.Keeper.Acquire(accept, lease.Want{Key: j.key().Backfill(), Holder: b.Self, Gone: b.Gone, OnHeldBack: p.recorder.heldBack})
		if err != nil {
			return fmt.Errorf("another forced back-fill of %s is running: %w", j.key(), err)
		}
		defer l.Release(context.WithoutCancel(work)) //nolint:errcheck // it lapses by itself
		ctx, cancel := context.WithCancelCause(accept)
		defer cancel(nil)
		defer context.AfterFunc(lostContext(ctx, l), func() { cancel(l.Loss().Err) })()
		accept = ctx
		if f.again, err = f.ranBefore(accept); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("back-fill %s of [%s, %s) by %s", fill.ID, stamp(fill.From), stamp(fill.To), fill.By)
	if fill.Why != "" {
		what += ": " + fill.Why
	}
	p.recorder.event(work, history.Event{Kind: "backfill-begun", Job: j.Spec.Key(), Reason: what})
	n, err := f.run(accept, work)
	p.recorder.event(work, history.Event{Kind: "backfill-ended", Job: j.Spec.Key(), Reason: fmt.Sprintf("%s: %s run", what, ticks(n))})
	if _, err := b.release(context.WithoutCancel(work)); err != nil {
		b.log().Warn("the lease of this back-fill was lost before its end", "error", err)
	}
	return err
}

// countdown returns a function that reports whether the limit allows one more; 0 is no limit.
func countdown(limit int) func() bool {
	n := 0
	return func() bool { n++; return limit == 0 || n <= limit }
}

// run goes through the ticks, the oldest first, and returns how many were run.
func (f *backfilling) run(accept, work context.Context) (int, error) {
	var (
		workers sync.WaitGroup
		slots   = make(chan struct{}, max(f.Concurrency, 1))
		mu      sync.Mutex
		ran     int
	)
	limited := false
	accept, cancel := context.WithCancelCause(accept)
	defer cancel(nil)
	err := f.b.Backlog(accept, f.job, f.Backfill, func(s Step) bool {
		if s.Do == Again && f.again[s.At.UnixMicro()] {
			s.Do, s.Why = Leave, "this back-fill has run it"
		}
		if s.Do == Leave {
			f.notify(s, Result{})
			return true
		}
		select {
		case slots <- struct{}{}:
		case <-accept.Done():
			return false
		}
		if limited = accept.Err() == nil && !f.left(); limited || accept.Err() != nil {
			<-slots
			return false
		}
		workers.Go(func() {
			defer func() { <-slots }()
			s, res := f.one(accept, work, s)
			if res.Run.ID != "" {
				mu.Lock()
				ran++
				mu.Unlock()
			}
			f.notify(s, res)
			if res.Run.ID == "" && res.Err != nil {
				cancel(res.Err) // what stood in its way stands in that of the next
			}
		})
		return true
	})
	workers.Wait()
	switch {
	case accept.Err() != nil:
		err = context.Cause(accept)
	case limited:
		err = ErrLimit
	}
	return ran, err
}

func (f *backfilling) notify(s Step, r Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report(s, r)
}

// insist tries again after a failure because the store does not answer, for four TTLs: a restart of the store, or a
// minute in which it is busy, does not end a back-fill. Each try takes no longer than a store's answers.
func (f *backfilling) insist(ctx context.Context, try func() error) error {
	var enough <-chan time.Time
	m := f.b.Keeper.Margin()
	for pause := m.Heartbeat / 8; ; pause = min(2*pause, m.Heartbeat) {
		err := try()
		if !errors.Is(err, lease.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if enough == nil {
			enough = time.After(4 * m.TTL)
			f.b.log().Warn("the store does not answer; the back-fill continues when it does", "job", f.job.key(), "patience", 4*m.TTL, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-enough:
			return err
		case <-ctx.Done():
			return err
		}
	}
}
