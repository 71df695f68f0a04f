package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
)

// A gate holds up who passes while it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// pass waits as long as it is shut.
func (g *gate) pass() {
	for {
		g.mu.Lock()
		c := g.shut
		g.mu.Unlock()
		if c == nil {
			return
		}
		<-c
	}
}

// A Process is one process of a simulated fleet: it can be stopped and go on, be cut off, and vanish
// in the middle of whatever it does. All that it sees of the world, its clock and its stores, goes
// through it. Its methods are safe for concurrent use.
type Process struct {
	asleep *gate
	gone   chan struct{}

	mu      sync.Mutex
	rng     *rand.Rand
	cut     bool
	slow    float64 // how many of its messages take time, or get lost
	loss    float64
	latency time.Duration
}

// NewProcess makes a process whose faults follow from the seed. Of its messages a share takes up to
// latency, and of these a share (loss) does not arrive.
func NewProcess(seed uint64, slow, loss float64, latency time.Duration) *Process {
	return &Process{asleep: new(gate), gone: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 2)), slow: slow, loss: loss, latency: latency}
}

// local is the same process without a network.
func (p *Process) local() *Process { return &Process{asleep: p.asleep, gone: p.gone} }

// Stop stops the process as SIGSTOP does, or lets it go on: what it was about to do, it then does late.
func (p *Process) Stop(stop bool) { p.asleep.set(stop) }

// Awake waits as long as the process is stopped.
func (p *Process) Awake() { p.asleep.pass() }

// Cut separates the process from its shared store, or joins them again.
func (p *Process) Cut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
}

// Kill makes the process vanish: nothing that it does from now on has an effect, though what it sent
// before may still arrive. Its goroutines find every store closed, and end.
func (p *Process) Kill() {
	close(p.gone)
	p.asleep.set(false)
}

// Gone is closed when the process has vanished.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Dead says whether it has.
func (p *Process) Dead() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Clock is a clock that the process reads, and stops at while it is stopped.
func (p *Process) Clock(c clock.Clock) clock.Clock { return pausing{c, p} }

type pausing struct {
	clock.Clock
	p *Process
}

func (c pausing) Wall() time.Time     { c.p.Awake(); return c.Clock.Wall() }
func (c pausing) Boot() time.Duration { c.p.Awake(); return c.Clock.Boot() }

// A Server is what a store does to requests. The zero Server is well.
type Server struct {
	stopped gate

	mu   sync.Mutex
	down bool
}

// Stop stops the server, or lets it go on: it then carries out the requests that came meanwhile,
// whoever still waits for them.
func (s *Server) Stop(stop bool) { s.stopped.set(stop) }

// Down has the server refuse every request at once, or no longer.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
}

func (s *Server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

var (
	errRefused = fmt.Errorf("%w: the connection was refused", lease.ErrUnavailable)
	errDead    = fmt.Errorf("%w: this process is no more", lease.ErrUnavailable)
)

// way draws what becomes of one message: whether it is lost, and how long it takes.
func (p *Process) way() (lost bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return true, 0
	}
	if p.slow == 0 || p.rng.Float64() >= p.slow {
		return false, 0
	}
	if p.latency > 0 {
		delay = time.Duration(p.rng.Int64N(int64(p.latency)))
	}
	return p.rng.Float64() < p.loss, delay
}

// call carries a request of p to a server and the answer back. What arrives is carried out, whether
// or not the caller still waits or lives.
func call[A any](ctx context.Context, p *Process, s *Server, f func(context.Context) (A, error)) (none A, err error) {
	p.Awake()
	if p.Dead() {
		return none, errDead
	}
	if s.isDown() {
		return none, errRefused
	}
	lost, delay := p.way()
	if lost {
		return none, p.silence(ctx)
	}
	if delay == 0 && !s.stopped.isShut() {
		a, err := f(context.WithoutCancel(ctx))
		return reply(ctx, p, a, err)
	}
	type answer struct {
		a   A
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		time.Sleep(delay)
		s.stopped.pass()
		a, err := f(context.WithoutCancel(ctx))
		answered <- answer{a, err}
	}()
	select {
	case got := <-answered:
		return reply(ctx, p, got.a, got.err)
	case <-ctx.Done():
	case <-p.gone:
	}
	p.Awake()
	return none, errors.Join(errLost, ctx.Err())
}

// reply is an answer's way back.
func reply[A any](ctx context.Context, p *Process, a A, err error) (none A, _ error) {
	lost, delay := p.way()
	if lost {
		return none, p.silence(ctx)
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		case <-p.gone:
		}
	}
	p.Awake()
	switch {
	case p.Dead():
		return none, errDead
	case ctx.Err() != nil:
		return none, errors.Join(errLost, ctx.Err())
	}
	return a, err
}

// silence is all that is heard of a lost message: the caller's own deadline.
func (p *Process) silence(ctx context.Context) error {
	bound := time.NewTimer(time.Minute) // who has no deadline has the connection's
	defer bound.Stop()
	select {
	case <-ctx.Done():
	case <-p.gone:
	case <-bound.C:
	}
	p.Awake()
	return errors.Join(errLost, ctx.Err())
}
