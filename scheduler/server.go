package scheduler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Server follows the schedules of jobs at one place: it claims each tick when the store's clock
// says that it is due, carries out what it won, and settles what nobody claimed. Several servers
// on the same store share the work. A process that serves jobs of both scopes has one per place.
type Server struct {
	place *Place
	app   string
	log   *slog.Logger
	// Stats count what happened since the start.
	Stats Stats

	mu   sync.Mutex
	jobs map[string]*entry
	// sources are those of the jobs that were last to be loaded, if there were any.
	sources []string
	// functions says that jobs of functions were loaded here, so that this program may end such jobs.
	functions bool
	// followed is the time of the schedules when it was last looked at.
	followed time.Time
	// hand counts, by tick, what is under way here. A claim of a tick in hand would be answered as a repeated one.
	hand  map[spot]int
	wake  chan struct{}
	hurry chan struct{}
	fires sync.WaitGroup

	turn     turn
	sweeps   sweeps
	loading  atomic.Int64 // Loads under way: what the store holds may be newer than the entries, and ours
	claiming atomic.Int64 // fires that wait for their turn, or for the answer to their claim

	// The sweep's own.
	adopted     tick.Spot            // where it goes on among the unfinished ticks,
	strayed     tick.Spot            // among those of all apps,
	owing       tick.Spot            // among those that are owed,
	read        string               // and in the registry
	served      map[string]bool      // the apps that have a live server
	gone        map[string]time.Time // apps that nobody serves, and since when they are missed
	seen        map[string]bool      // those that were met in this round
	undelivered int                  // sweeps in a row that could not deliver this host's spool
	tried       map[string]bool      // what was tried in them
	sick        bool                 // the last sweep that it made for all failed
	clockOff    time.Duration        // the offset of the clock that was told of last
}

// entry is a job with its place in time.
type entry struct {
	*Job
	generation int64
	next       time.Time             // its next tick; zero: none
	looked     atomic.Pointer[since] // up to where there is nothing to catch up on but what nobody claimed
	differs    atomic.Bool           // the store holds another definition, from a newer load (rule T11)
	view

	definition tick.Job  // what it was made of
	whole      *Job      // the job as it was loaded, whenever it is due
	past       []*entry  // those of the definitions before it that left ticks open, oldest first
	main       *entry    // of one of these: whose past it is; nil for the one in force
	done       bool      // the sweep's own, of a past one: all its ticks have their outcome
	returned   time.Time // the earliest tick that came back since the definition is being replaced
}

// NewServer makes a server of app's jobs at a place. Make it before the place is used: unless somebody hears of it
// already, it has the place's Book tell that the store holds back.
func NewServer(p *Place, app string) *Server {
	if p.Book != nil && p.Book.OnHeldBack == nil {
		p.Book.OnHeldBack = p.heldBack
	}
	s := &Server{place: p, app: app, log: p.log().With("place", p.Name), jobs: map[string]*entry{}, hand: map[spot]int{},
		gone: map[string]time.Time{}, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	s.sweeps.among(app, nil)
	return s
}

// Load registers jobs in place of those loaded before. A job whose definition did not change
// loses no tick; the ticks of a new one begin now (rule T4), those of a changed one with its
// registration (rule T11).
func (s *Server) Load(ctx context.Context, jobs []*Job) error {
	p, err := s.Prepare(ctx, jobs)
	if err != nil {
		return err
	}
	defer p.Close()
	p.Swap()
	return nil
}

// Prepared are jobs that are registered and not served yet.
type Prepared struct {
	s       *Server
	entries []*entry
	now     time.Time
	close   func()
}

// spot is a tick.
type spot struct {
	job string
	at  int64 // in µs
}

// hold takes a tick in hand until letGo is called. It is false where that was so already.
func (s *Server) hold(job string, at time.Time) (letGo func(), first bool) {
	x := spot{job, at.UnixMicro()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hand[x]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hand[x]--; s.hand[x] == 0 {
			delete(s.hand, x)
		}
	}, s.hand[x] == 1
}

// A Change is what a server is to serve.
type Change struct {
	Server *Server
	Jobs   []*Job
}

// PrepareAll prepares several servers, in order. Nothing is registered anywhere unless all jobs are sound and all
// stores answer: a server whose own registration is newer than what it serves would fire nothing of what has changed
// (rule T11) for as long as another store is away. The caller closes what it returns.
func PrepareAll(ctx context.Context, changes []Change) (all []*Prepared, err error) {
	for _, c := range changes {
		if err := c.Server.check(ctx, c.Jobs); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		p, err := c.Server.Prepare(ctx, c.Jobs)
		if err != nil {
			for _, p := range all {
				p.Close()
			}
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// check says whether Prepare has a prospect. It changes nothing.
func (s *Server) check(ctx context.Context, jobs []*Job) error {
	for _, j := range jobs {
		if err := j.Check(); err != nil {
			return err
		}
	}
	known, err := s.known(ctx)
	if err != nil {
		return err
	}
	return s.mayHave(jobs, known)
}

// known are the jobs that are registered at the store.
func (s *Server) known(ctx context.Context) ([]tick.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	known, err := tick.Registry(ctx, s.place.Ticks, s.app+"/")
	if err != nil {
		return nil, fmt.Errorf("read the registered jobs at %s: %w", s.place.Name, err)
	}
	return known, nil
}

// Prepare is the part of Load that can fail: it registers the jobs, and what the server serves stays as it was
// until Swap. The caller closes what it returns.
func (s *Server) Prepare(ctx context.Context, jobs []*Job) (_ *Prepared, err error) {
	s.loading.Add(1)
	p := &Prepared{s: s, close: sync.OnceFunc(func() { s.loading.Add(-1) })}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	for _, j := range jobs {
		if err := j.Check(); err != nil {
			return nil, err
		}
	}
	registered, err := s.register(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		p.entries = append(p.entries, s.entry(ctx, j, registered[i]))
	}
	if p.now, err = s.place.Keeper.Now(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the loading, whether or not the jobs were swapped.
func (p *Prepared) Close() { p.close() }

// Swap has the server serve the jobs in place of those before. It cannot fail.
func (p *Prepared) Swap() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.jobs
	s.jobs = make(map[string]*entry, len(p.entries))
	for _, e := range p.entries {
		name := e.Spec.Key()
		s.takeUp(e, before[name], p.now)
		s.jobs[name] = e
	}
	s.sweeps.among(s.app, s.jobs)
	s.poke()
}

// startable is the first tick after one, that one included, which may still be started: what is
// older is settled as missed.
func (s *Server) startable(j *Job, at, now time.Time) time.Time {
	ok := true
	since, until := s.place.Keeper.HeldBack()
	for ok && s.place.startBy(j, at).Before(now) {
		// Jump: what lies further back than any starting deadline is not walked through.
		from, late := at, j.StartBy(at).Sub(at)
		skip := now.Add(-late).Add(-time.Second)
		if since.Before(skip) && !until.Add(late).Before(now) { // what fell due in a hold-back may still start
			skip = since.Add(-late)
		}
		if skip.After(from) {
			from = skip
		}
		at, ok = j.Set().Next(from)
	}
	if !ok {
		return time.Time{}
	}
	return at
}

// Run serves until ctx ends: then it claims nothing more, lets what runs go on for drain, tells it
// to stop after that, and releases what it holds once all of it is gone.
func (s *Server) Run(ctx context.Context, drain time.Duration) error {
	defer aside.Flush(s.log)
	defer s.place.FlushHooks(aside.FlushTime)
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	sweeping, endSweep := context.WithCancel(work)
	defer endSweep()
	var sweeper sync.WaitGroup
	s.place.sweeping.Store(true)
	defer s.place.sweeping.Store(false)
	sweeper.Go(func() { s.sweep(sweeping, ctx, work) })
	sweeper.Go(func() { s.retain(sweeping) })
	s.follow(ctx, work)
	endSweep() // before the wait: it may start what it takes over
	sweeper.Wait()
	idle := make(chan struct{})
	go func() { s.fires.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-time.After(drain):
	case <-s.hurry:
	}
	stop(run.ErrShutdown)
	<-idle
	ctx = context.WithoutCancel(ctx)
	s.place.flush(ctx, true)
	last, enough := context.WithTimeout(ctx, s.place.Keeper.Margin().RPCTimeout)
	defer enough()
	if err := s.place.DeliverAll(last); err != nil {
		s.log.Warn("records on this host are delivered to the store later", "error", err)
	}
	return s.place.Book.Release(ctx)
}

// longestSleep bounds the timer, which stops while the machine is suspended.
const longestSleep = 30 * time.Second

// Hurry ends a drain early: what still runs is told to stop.
func (s *Server) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// follow fires what is due until accept ends.
func (s *Server) follow(accept, work context.Context) {
	for accept.Err() == nil {
		wait := longestSleep
		now, err := s.place.Keeper.Now(accept)
		if err != nil {
			s.log.Warn("the store does not answer with its time", "error", err)
			wait = s.place.Keeper.Margin().Heartbeat
		} else {
			wait = min(wait, s.due(accept, work, now))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.wake:
		case <-accept.Done():
		}
		t.Stop()
	}
}

// due fires each job whose next tick has come and returns the time to the next one.
func (s *Server) due(accept, work context.Context, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, back := longestSleep, now.Before(s.followed.Add(-lease.MaxStep))
	s.followed = now
	for e := range s.following() {
		if back && !e.root().differs.Load() {
			e.next = s.again(e.Job, now)
		}
		if !e.next.IsZero() && s.place.startBy(e.Job, e.next).Before(now) {
			e.next = s.startable(e.Job, e.next, now) // after a suspend, say: the rest is settled as missed
		}
		for !e.next.IsZero() && !e.Starts(e.next).After(now) {
			if at := e.next; !e.Dormant && e.Open(at) {
				s.fires.Go(func() { s.fire(accept, work, e, at) })
			}
			at := e.next
			if e.next, _ = e.Set().Next(at); e.next.IsZero() {
				break
			}
		}
		if !e.next.IsZero() {
			wait = min(wait, e.Starts(e.next).Sub(now))
		}
	}
	return wait
}

// following are the entries of all definitions that have ticks to fire, one by one: there may be a million.
func (s *Server) following() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range s.jobs {
			for _, x := range e.past {
				if !yield(x) {
					return
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// again is the first tick to fire once schedules follow a clock that stepped back. What fell due by it meanwhile was
// not fired; what has an outcome already is refused.
func (s *Server) again(j *Job, now time.Time) time.Time {
	at, ok := j.Set().Next(now.Add(-waited))
	if !ok {
		return time.Time{}
	}
	return s.startable(j, at, now)
}

// fire claims one tick and carries it out if it is won.
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
	s.claiming.Add(1)
	claimed := sync.OnceFunc(func() { s.claiming.Add(-1) })
	defer claimed()
	inTime := !s.place.now().After(s.place.startBy(e.Job, at))
	if s.joinCatchUp(accept, e, at) {
		log.Debug("it joins the end of a catch-up", "event", "tick-joined")
		return
	}
	answered := func() {}
	if rank := s.turn.rank(e.Spec.Key(), at); rank == 0 {
		answered = sync.OnceFunc(s.turn.share.begin())
		defer answered()
	} else if s.await(accept, e, at, rank) {
		s.Stats.raced.Add(1)
		log.Debug("another server has this tick", "event", "tick-taken")
		return
	}
	a, err := s.claim(accept, e, at, inTime)
	claimed()
	answered()
	switch {
	case accept.Err() != nil && err != nil:
		return // shutting down: others have it
	case errors.Is(err, tick.ErrTooLate):
		log.Warn("too late to start; it becomes missed if no server has it", "event", "tick-late")
	case err != nil:
		log.Error("the store could not be used in time: nothing was started", "event", "tick-unavailable", "error", err)
		s.Stats.unavailable.Add(1)
		s.place.spool(Item{Unavailable: &Unclaimed{Job: e.Spec.Key(), At: at}}, err)
	case a.Status == tick.Won:
		s.Stats.won.Add(1)
		s.carryOut(accept, work, e, a.Tick, false)
	case a.Status == tick.Differs:
		changed = true
		s.differs(work, e.root())
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

// claim asks for the tick until the store answers or it is too late to start. Early: the store's clock has not come to
// the tick in all the time that it had to start.
func (s *Server) claim(ctx context.Context, e *entry, at time.Time, inTime bool) (tick.Answer, error) {
	w := tick.Want{Job: e.Spec.Key(), At: at, Generation: e.generation, StartBy: e.StartBy(at)}
	enough := time.NewTimer(max(s.place.startBy(e.Job, at).Sub(s.place.now()), 0)) // goes on where the store's clock steps back
	defer enough.Stop()
	for early := (tick.Answer{}); ; {
		a, err := s.place.Book.Claim(ctx, w)
		pause := min(s.place.Keeper.Margin().Heartbeat, time.Second)
		switch {
		case err == nil && s.place.premature(ctx, w, a):
			select {
			case <-enough.C:
				a.Status = tick.Early
				return a, nil
			default:
			}
			if early = a; s.place.again(ctx, at, a.Status) {
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
		case !errors.Is(err, lease.ErrUnavailable) || s.place.now().After(s.place.startBy(e.Job, at)):
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// carryOut fires a tick that this server has won. late is Fire's.
func (s *Server) carryOut(accept, work context.Context, e *entry, t tick.Tick, late bool) {
	letGo, _ := s.hold(e.Spec.Key(), t.At) // for who came by another way than fire
	defer letGo()
	f, done := e.fire(t.At)
	defer done()
	f.Claim, f.Again, f.Accept, f.Late = t.Lease, t.Reruns > 0, accept, late
	if !late && !f.Again {
		f.StartBy = e.StartBy(t.At)
	}
	log := s.log.With("job", f.Key, "tick", stamp(t.At), "run_id", f.RunID)
	f.OnStart = func(r run.Record) { log.Info("started", "event", "run-started", "token", r.Token) }
	res := s.place.fire(work, f)
	if res.anew != nil {
		s.carryOut(accept, work, e, *res.anew, late)
		return
	}
	s.Stats.count(res)
	switch {
	case res.Run.ID != "":
		log.Log(work, levelOf(res.Outcome), string(res.Outcome), "event", "run-ended", "outcome", res.Outcome, "reason", res.Reason, "took", res.Run.Ended.Sub(res.Run.Started).Round(time.Millisecond))
	case res.Taken != nil:
		log.Info("another server took this tick over", "event", "tick-taken")
	case res.Outcome != "":
		log.Log(work, levelOf(res.Outcome), "not run", "event", "tick-"+string(res.Outcome), "reason", res.Reason)
	}
	if res.Err != nil {
		log.Error("fire", "error", res.Err)
	}
}

// levelOf is how loud a log says an outcome: what was meant to be is INFO, a tick that should have run and did
// not is WARN, a run that did not come to a good end is ERROR.
func levelOf(o run.Outcome) slog.Level {
	switch o {
	case run.Failed, run.TimedOut, run.Lost, run.Crashed:
		return slog.LevelError
	case run.Missed, run.Unavailable:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// differs stops firing a job whose definition in the store is newer than ours (rule T11).
func (s *Server) differs(ctx context.Context, e *entry) {
	if s.loading.Load() > 0 {
		return // it may be the one that is being loaded
	}
	s.mu.Lock()
	first := s.jobs[e.Spec.Key()] == e && e.differs.CompareAndSwap(false, true) // else it was replaced here meanwhile
	for _, x := range e.line() {
		x.next = time.Time{}
	}
	s.mu.Unlock()
	if first {
		s.place.Event(ctx, history.Event{Kind: "manifest-differs", Job: e.Spec.Key(),
			Reason: "the store has another definition of this job, from a newer load; this server runs none of its ticks until it loads that one"})
	}
}

func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
