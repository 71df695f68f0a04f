package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// A Backfill runs a range of a job's ticks by hand (rule T12): each that has no run yet, as the
// ordinary tick that it is, so that it is run once whoever else asks for it.
type Backfill struct {
	// ID names the back-fill in what it records. With Force, what ran under it is not run again.
	ID string
	// From and To bound the ticks: [From, To).
	From, To time.Time
	// Skipped also runs ticks that were skipped because of something else than their windows.
	Skipped bool
	// Force also runs those that have a run, were skipped or paused, or are older than what history
	// keeps: once more, each as a run beside the tick, whose outcome stays.
	Force bool
	// Limit is how many ticks are run at most; 0: all. Concurrency is how many at once; default 1.
	Limit, Concurrency int
	// By and Why are for people.
	By, Why string
}

// Doing is what a back-fill does with a tick.
type Doing string

// What there is to do.
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
	// Why says why it is left.
	Why string
}

// ErrOtherDefinition is returned for a back-fill whose definition of the job is not the registered one.
var ErrOtherDefinition = errors.New("the store holds another definition of this job")

// ErrLimit is returned by a back-fill that ran as many ticks as it was to, and found one more.
var ErrLimit = errors.New("the limit is reached")

// backfilling is a back-fill under way.
type backfilling struct {
	Backfill
	place      *Place
	job        *Job
	generation int64
	again      map[int64]bool // what ran under this id before, with Force
	left       func() bool    // whether the limit allows one more

	mu     sync.Mutex // report is called by one at a time
	report func(Step, Result)
}

// Backfill carries out b. report hears, one call at a time, of each tick, when it is decided or its
// run has ended. When accept ends no further tick is begun; work ends those that run.
func (p *Place) Backfill(accept, work context.Context, j *Job, b Backfill, report func(Step, Result)) error {
	known, err := p.fillable(accept, j)
	if err != nil {
		return err
	}
	f := &backfilling{Backfill: b, place: p, job: j, generation: known.Generation, report: report}
	f.left = countdown(b.Limit)
	if b.Force {
		// Runs beside their ticks have no claim to keep them apart: one back-fill at a time makes them.
		l, err := p.Keeper.Acquire(accept, lease.Want{Key: j.key().Backfill(), Holder: p.Self, Gone: p.Gone, OnHeldBack: p.heldBack})
		if err != nil {
			return fmt.Errorf("another forced back-fill of %s is running: %w", j.key(), err)
		}
		defer l.Release(context.WithoutCancel(work)) //nolint:errcheck // it lapses by itself
		ctx, cancel := context.WithCancelCause(accept)
		defer cancel(nil)
		defer context.AfterFunc(lostContext(ctx, l), func() { cancel(l.Loss().Err) })()
		accept = ctx
		if f.again, err = p.ranUnder(accept, j, b.ID); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("back-fill %s of [%s, %s) by %s", b.ID, stamp(b.From), stamp(b.To), b.By)
	if b.Why != "" {
		what += ": " + b.Why
	}
	p.Event(work, history.Event{Kind: "backfill-begun", Job: j.Spec.Key(), Reason: what})
	n, err := f.run(accept, work)
	p.Event(work, history.Event{Kind: "backfill-ended", Job: j.Spec.Key(), Reason: fmt.Sprintf("%s: %s run", what, ticks(n))})
	if err := p.Book.Release(context.WithoutCancel(work)); err != nil {
		p.log().Warn("the lease of this back-fill could not be released; it expires by itself", "error", err)
	}
	return err
}

// countdown says, for a limit, whether one more is allowed; 0 is no limit.
func countdown(limit int) func() bool {
	n := 0
	return func() bool { n++; return limit == 0 || n <= limit }
}

// fillable is the job's registration, which must be this definition's: a back-fill changes nothing
// about what servers do.
func (p *Place) fillable(ctx context.Context, j *Job) (tick.Job, error) {
	if err := j.Check(); err != nil {
		return tick.Job{}, err
	}
	known, ok, err := p.registered(ctx, j.Spec.Key())
	switch {
	case err != nil:
		return known, unavailable(err)
	case !ok:
		return known, fmt.Errorf("%s: %w in %s", j.Spec.Key(), ErrUnknownJob, p.Name)
	case known.Definition != DefinitionBeside(&j.Spec, known):
		return known, fmt.Errorf("%s: %w", j.Spec.Key(), ErrOtherDefinition)
	}
	return known, nil
}

// ranUnder are the ticks that were run beside their outcome under a back-fill's id.
func (p *Place) ranUnder(ctx context.Context, j *Job, id string) (map[int64]bool, error) {
	done := map[int64]bool{}
	for q := (history.Query{Job: j.Spec.Key(), Limit: settleBatch}); ; {
		runs, err := p.History.Runs(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read the runs of %s: %w", j.Spec.Key(), err)
		}
		for _, r := range runs {
			if c := r.Cause; c != nil && c.Backfill == id && !c.Again.IsZero() && settledRun(r) {
				done[c.Again.UnixMicro()] = true
			}
		}
		if len(runs) < settleBatch || runs[len(runs)-1].Started.Equal(q.To) {
			return done, nil
		}
		q.To = runs[len(runs)-1].Started.Add(time.Microsecond)
	}
}

// settledRun says whether a run came to an end of its own.
func settledRun(r run.Record) bool {
	return r.Outcome == run.Succeeded || r.Outcome == run.Failed || r.Outcome == run.TimedOut
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
	err := f.place.Backlog(accept, f.job, f.Backfill, func(s Step) bool {
		if s.Do == Again && f.again[s.At.UnixMicro()] {
			s.Do, s.Why = Leave, "this back-fill has run it"
		}
		if s.Do == Leave {
			f.tell(s, Result{})
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
			f.tell(s, res)
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

func (f *backfilling) tell(s Step, r Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report(s, r)
}

// insist tries again what failed because the store does not answer, for four TTLs: a restart of the
// store, or a minute in which it is busy, ends no back-fill. What it tries takes no longer than a store's answers.
func (f *backfilling) insist(ctx context.Context, try func() error) error {
	var enough <-chan time.Time
	m := f.place.Keeper.Margin()
	for pause := m.Heartbeat / 8; ; pause = min(2*pause, m.Heartbeat) {
		err := try()
		if !errors.Is(err, lease.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if enough == nil {
			enough = time.After(4 * m.TTL)
			f.place.log().Warn("the store does not answer; the back-fill continues when it does", "job", f.job.key(), "patience", 4*m.TTL, "error", err)
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

// one carries out one step.
func (f *backfilling) one(accept, work context.Context, s Step) (Step, Result) {
	if s.Do == Again {
		return s, f.beside(accept, work, s.At)
	}
	var t tick.Tick
	err := f.insist(accept, func() (err error) { s, t, err = f.take(accept, s); return err })
	switch {
	case err != nil:
		return s, Result{Err: err}
	case s.Do == Leave:
		return s, Result{}
	}
	x, done := f.job.fire(s.At)
	defer done()
	x.Claim, x.Accept, x.Late, x.Cause = t.Lease, accept, true, f.cause()
	res := f.place.fire(work, x)
	if res.Run.ID == "" && res.Outcome == "" && res.Taken == nil {
		f.place.giveBack(x, s)
	}
	return s, res
}

// giveBack ends a claim that was called off before its start, so that the tick can be filled later.
func (p *Place) giveBack(f Fire, s Step) {
	outcome := run.Outcome(s.Was)
	if outcome == "" {
		outcome = run.Missed
	}
	_, _, _ = p.report(f.Accept, tick.CloseRequest{Claim: f.Claim, Run: run.Record{Job: string(f.Key), Tick: f.Tick, Owner: f.Claim.Owner,
		Token: f.Claim.Token, Host: p.Self.Host, Outcome: outcome, Reason: "a back-fill was ended before it started this tick"}}, nil)
}

// beside runs a tick once more, as a run of its own that leaves the tick's outcome alone.
func (f *backfilling) beside(accept, work context.Context, at time.Time) Result {
	x, done := f.job.fire(time.Time{})
	defer done()
	cause := f.cause()
	cause.Again = at
	x.Accept, x.Late, x.Cause = accept, true, cause
	x.IdempotencyKey = idempotency(run.Record{Job: string(x.Key), Tick: at}) + "#" + f.ID
	var known tick.Job
	var ok bool
	switch err := f.insist(accept, func() (err error) { known, ok, err = f.known(accept); return err }); {
	case err != nil:
		return Result{Err: err}
	case !ok || known.Pause.Covers(f.place.now()):
		return Result{Outcome: run.Paused, Reason: PausedBy(known.Pause)}
	}
	return f.place.fire(work, x)
}

func (f *backfilling) cause() *run.Cause {
	return &run.Cause{By: f.By, Why: f.Why, Backfill: f.ID}
}

// take gets the claim of a tick: the ordinary one where nobody has it, else that of a row which says
// that it never ran. What is found there at last decides; s says so.
func (f *backfilling) take(ctx context.Context, s Step) (Step, tick.Tick, error) {
	name, settled := f.job.Spec.Key(), false
	for range 10 {
		known, row, err := f.look(ctx, s.At)
		if err != nil {
			return s, row, err
		}
		if f.ours(row) && !known.Pause.Covers(f.place.now()) {
			switch a, err := f.regain(ctx, row); {
			case err != nil:
				return s, row, err
			case a.Status == tick.Won:
				return s, a.Tick, nil
			}
			continue
		}
		parts, own := partition(f.job, row, s.At)
		if s = f.decide(f.job, s.At, row, own, known.Pause, f.place.now()); s.Do != Fill {
			s.Do = Leave // what has got a run meanwhile is not run once more
			return s, row, nil
		}
		var a tick.Answer
		switch {
		case row.State == "":
			a, err = f.place.Book.Claim(ctx, tick.Want{Job: name, At: s.At, Generation: f.generation, Fill: settled})
			settled = settled || a.Status == tick.Settled
		case !row.Through.IsZero():
			_, err = f.place.Ticks.Split(ctx, tick.SplitRequest{Row: row, Parts: parts})
		default:
			a, err = f.place.Book.Fill(ctx, row)
		}
		switch {
		case err != nil:
			return s, row, err
		case a.Status == tick.Won:
			return s, a.Tick, nil
		case a.Status == tick.Differs:
			return s, row, fmt.Errorf("%s: %w", name, ErrOtherDefinition)
		}
	}
	s.Do, s.Why = Leave, "others are at it"
	return s, tick.Tick{}, nil
}

// ours says whether a row is a claim of this process. Then an earlier try of this very step made it, and the
// answer was lost: no other step asks for that tick.
func (f *backfilling) ours(row tick.Tick) bool {
	was, self := row.Claimant, f.place.Self
	return row.State == tick.Claimed && was.Host == self.Host && was.PID == self.PID && was.Command == self.Command
}

// regain goes on with a claim of ours; one under a lease that was lost meanwhile is taken over once it has
// lapsed, as any.
func (f *backfilling) regain(ctx context.Context, row tick.Tick) (tick.Answer, error) {
	server, err := f.place.Book.Server(ctx)
	switch {
	case err != nil:
		return tick.Answer{}, err
	case row.Lease == server.Ref():
		return tick.Answer{Status: tick.Won, Tick: row}, nil
	case row.Live:
		return tick.Answer{}, fmt.Errorf("%w: an earlier claim of this process has not expired", lease.ErrUnavailable)
	}
	return f.place.Book.Take(ctx, row, false)
}

// known is the registration of the job.
func (f *backfilling) known(ctx context.Context) (tick.Job, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, f.place.Keeper.Margin().TTL)
	defer cancel()
	known, ok, err := f.place.registered(ctx, f.job.Spec.Key())
	if err != nil {
		return known, ok, unavailable(err)
	}
	return known, ok, nil
}

// look reads the registration, and the row that accounts for a tick; the zero row where there is none.
func (f *backfilling) look(ctx context.Context, at time.Time) (tick.Job, tick.Tick, error) {
	ctx, cancel := context.WithTimeout(ctx, f.place.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	known, ok, err := f.known(ctx)
	switch {
	case err != nil:
		return known, tick.Tick{}, err
	case !ok:
		return known, tick.Tick{}, fmt.Errorf("%s: %w in %s", f.job.Spec.Key(), ErrUnknownJob, f.place.Name)
	}
	rows, err := f.place.History.Ticks(ctx, history.Query{Job: f.job.Spec.Key(), From: at, To: at.Add(time.Microsecond), Limit: 2})
	if err != nil {
		return known, tick.Tick{}, fmt.Errorf("read the tick %s of %s: %w", stamp(at), f.job.Spec.Key(), unavailable(err))
	}
	return known, rowOf(at, rows), nil
}

func rowOf(at time.Time, rows []tick.Tick) tick.Tick {
	for _, r := range rows {
		if r.At.Equal(at) || !r.Through.IsZero() && !at.Before(r.At) && !at.After(r.Through) {
			return r
		}
	}
	return tick.Tick{}
}

// Backlog lists what a back-fill would do with each tick of its range, the oldest first, until yield
// says false. Ticks that are still to come are not among them.
func (p *Place) Backlog(ctx context.Context, j *Job, b Backfill, yield func(Step) bool) error {
	known, err := p.fillable(ctx, j)
	if err != nil {
		return err
	}
	at, ok := j.Set().Next(b.From.Add(-time.Nanosecond))
	for ok {
		now, err := p.Keeper.Now(ctx)
		if err != nil {
			return err
		}
		var due []time.Time
		for ok && at.Before(b.To) && !j.Starts(at).After(now) && len(due) < backlogPage {
			due = append(due, at)
			at, ok = j.Set().Next(at)
		}
		if len(due) == 0 {
			return nil
		}
		rows, n, err := p.page(ctx, j, due)
		if err != nil {
			return err
		}
		if n < len(due) { // there were too many rows for one answer
			at, ok = due[n], true
		}
		for _, at := range due[:n] {
			row, own := rows(at)
			if !yield(b.decide(j, at, row, own, known.Pause, now)) {
				return nil
			}
		}
	}
	return nil
}

// backlogPage is how many ticks a back-fill looks at in one read.
const backlogPage = 1000

// page finds the rows of ticks, and whether each is of this job's definition; n is for how many of them,
// which are fewer if the rows between them are more than one answer holds.
func (p *Place) page(ctx context.Context, j *Job, due []time.Time) (row func(time.Time) (r tick.Tick, own bool), n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	for n = len(due); ; n = max(n/2, 1) {
		rows, err := p.History.Ticks(ctx, history.Query{Job: j.Spec.Key(), From: due[0], To: due[n-1].Add(time.Microsecond), Limit: settleBatch})
		if err != nil {
			return nil, 0, fmt.Errorf("read the ticks of %s: %w", j.Spec.Key(), unavailable(err))
		}
		if len(rows) == settleBatch && n > 1 {
			continue
		}
		single := make(map[int64]tick.Tick, len(rows))
		var ranges []tick.Tick
		foreign := map[int64]bool{} // looked at once: a range may stand for thousands
		for _, r := range rows {
			if single[r.At.UnixMicro()] = r; !r.Through.IsZero() {
				ranges = append(ranges, r)
				foreign[r.At.UnixMicro()] = len(ticksOf(j.Set(), r)) == 0
			}
		}
		return func(at time.Time) (tick.Tick, bool) {
			r, found := single[at.UnixMicro()]
			if !found {
				r = rowOf(at, ranges)
			}
			return r, !foreign[r.At.UnixMicro()]
		}, n, nil
	}
}

// decide says what to do with a tick for which row accounts; own says that it is of this definition.
func (b *Backfill) decide(j *Job, at time.Time, row tick.Tick, own bool, pause tick.Pause, now time.Time) Step {
	s := Step{At: at, Was: string(row.Outcome), Do: Fill}
	leave := func(why string, again bool) Step {
		if s.Do, s.Why = Leave, why; again && b.Force {
			s.Do, s.Why = Again, ""
		}
		return s
	}
	switch {
	case pause.Covers(now):
		return leave(PausedBy(pause), false)
	case row.State == "" && at.Before(now.Add(day-retention)):
		return leave("it is older than what history keeps", true)
	case row.State == "" && pause.Covers(at):
		return leave("it was paused", true)
	case row.State == "" && !j.Open(at):
		return leave("it lies outside the windows of its job", true)
	case row.State == "":
		return s
	case row.State != tick.Closed:
		s.Was = string(row.State)
		return leave("it is under way: "+row.Claimant.String(), false)
	case row.Outcome == run.Skipped && row.Reason == run.ReasonWindow:
		return leave("it lies outside the windows of its job", true)
	case row.Outcome == run.Skipped && !b.Skipped:
		return leave("it was skipped: "+row.Reason, true)
	case row.Outcome == run.Missed, row.Outcome == run.Unavailable, row.Outcome == run.Skipped:
		if !own {
			return leave("it belongs to an earlier definition of the job", true)
		}
		return s
	case row.Outcome == run.Paused:
		return leave("it was paused", true)
	case j.Spec.Policy.OnCrash == job.CrashRerun && mayRerun(row) && row.Reruns < maxReruns && now.Sub(at) <= j.Spec.Policy.CatchUpWindow:
		return leave("a server runs it again by itself (on_crash)", false)
	}
	return leave("it has run", true)
}

const day = 24 * time.Hour

// partition is a range row in up to three parts, of which one is the tick at. It fails where the
// range is not made of this job's ticks, as one that another schedule left behind. A single tick's
// row is its own only part.
func partition(j *Job, row tick.Tick, at time.Time) (parts []tick.Tick, ok bool) {
	if row.Through.IsZero() {
		return []tick.Tick{row}, true
	}
	all := ticksOf(j.Set(), row)
	for i, x := range all {
		if x.Equal(at) {
			return span(all[:i], all[i:i+1], all[i+1:]), true
		}
	}
	return nil, false
}

// ticksOf are those for which a range stands; none where it is not made of these schedules'.
func ticksOf(set schedule.Set, row tick.Tick) (all []time.Time) {
	x, more := set.Next(row.At.Add(-time.Nanosecond))
	for more && !x.After(row.Through) && len(all) <= row.Count {
		all = append(all, x)
		x, more = set.Next(x)
	}
	if n := len(all); n == 0 || n != row.Count || !all[0].Equal(row.At) || !all[n-1].Equal(row.Through) {
		return nil
	}
	return all
}

func span(groups ...[]time.Time) (parts []tick.Tick) {
	for _, g := range groups {
		switch n := len(g); n {
		case 0:
		case 1:
			parts = append(parts, tick.Tick{At: g[0], Count: 1})
		default:
			parts = append(parts, tick.Tick{At: g[0], Through: g[n-1], Count: n})
		}
	}
	return parts
}

// ticks counts them in words.
func ticks(n int) string {
	if n == 1 {
		return "1 tick"
	}
	return fmt.Sprintf("%d ticks", n)
}
