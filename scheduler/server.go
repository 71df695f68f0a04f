package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/run"
)

// A Server follows the schedules of one backend's jobs: it claims each tick when the store's clock says that it is
// due, runs what it won, and settles what nobody claimed. Several servers on the same store share the work. A
// process that serves jobs of both scopes has one Server per backend.
type Server struct {
	*parts
	app string
	log *slog.Logger
	// Stats count what happened since the start.
	Stats Stats

	mu   sync.Mutex
	jobs map[string]*entry
	// doubts names jobs of which the store may have another definition.
	doubts map[string]bool
	// lookback is how long ago a tick can have been that is still to be run again or caught up on.
	lookback time.Duration
	// followed is the time of the schedules when they were last looked at.
	followed time.Time
	// hand counts, by tick, what is in progress here. A claim of a tick in hand would be answered as a repeated one.
	hand  map[spot]int
	wake  chan struct{}
	hurry chan struct{}
	fires sync.WaitGroup

	turn     turn
	brakes   brakes
	presence *fleet.Reporter // keeps this server on record,
	draining atomic.Bool     // also that it takes nothing new
	loading  atomic.Int64    // Loads under way: what the store holds may be newer than the entries, and ours
	claiming atomic.Int64    // fires that wait for their turn, or for the answer to their claim

	registrar  registrar  // registers jobs
	restorer   restorer   // registers them again, where a store has forgotten them
	catchUps   catchUps   // runs what nobody was there for
	sweeper    sweeper    // looks, several times per TTL, after what others left:
	adopter    adopter    // ticks whose process is gone,
	maintainer maintainer // what is over, or owed, of its jobs,
	abandoned  abandoned  // and ticks of apps without servers
}

// NewServer makes a server of app's jobs at a backend. Make it before the backend is used: unless the backend's Book
// already has an OnHeldBack, NewServer sets it, to report when the store holds back.
func NewServer(b *Backend, app string) *Server {
	p := b.parts()
	if b.Book != nil && b.Book.OnHeldBack == nil {
		b.Book.OnHeldBack = p.recorder.heldBack
	}
	s := &Server{parts: p, app: app, log: b.log().With("store", b.Name), jobs: map[string]*entry{}, doubts: map[string]bool{},
		hand: map[spot]int{}, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	s.registrar.Server, s.restorer.Server, s.catchUps.Server = s, s, s
	s.sweeper.Server, s.adopter.Server, s.maintainer.Server = s, s, s
	s.abandoned.Server, s.abandoned.gone = s, map[string]time.Time{}
	s.brakes.log = s.log
	s.presence = fleet.NewReporter(fleet.ReporterOptions{Store: b.Fleet, Keeper: b.Keeper, Describe: s.describe, TimeOfDay: b.TimeOfDay, Log: s.log})
	s.sweeper.turns.among(app, nil)
	return s
}

// spot is a tick.
type spot struct {
	job string
	at  int64 // in µs
}

// hold takes a tick in hand until letGo is called. first is false if it already was.
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

// Run serves until ctx ends. Then it claims nothing more, lets running work continue for drain, tells it to stop
// after that, and releases what it holds once all work has ended. A store that does not answer then is no error: what
// is held expires by itself. The error wraps lease.ErrLost if it was taken away before.
func (s *Server) Run(ctx context.Context, drain time.Duration) error {
	defer aside.Flush(s.log)
	defer s.notifier.queue.Flush(aside.FlushTime)
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	sweeping, endSweep := context.WithCancel(work)
	defer endSweep()
	var sweeper sync.WaitGroup
	s.outbox.sweeping.Store(true)
	defer s.outbox.sweeping.Store(false)
	sweeper.Go(func() { s.sweeper.run(sweeping, ctx, work) })
	sweeper.Go(func() { s.retain(sweeping) })
	present, leave := context.WithCancel(work)
	defer leave()
	var presence sync.WaitGroup
	presence.Go(func() { s.presence.Run(present) })
	s.follow(ctx, work)
	s.draining.Store(true)
	s.presence.Changed()
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
	s.recorder.flush(ctx, true)
	last, enough := context.WithTimeout(ctx, s.b.Keeper.Margin().RPCTimeout)
	defer enough()
	if err := s.outbox.deliver(last, true); err != nil {
		s.log.Warn("records on this host are delivered to the store later", "error", err)
	}
	leave()
	presence.Wait()
	heard, err := s.b.release(ctx)
	if heard {
		s.presence.End(ctx)
	}
	return err
}

// Hurry ends a drain early: work that still runs is told to stop.
func (s *Server) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}
