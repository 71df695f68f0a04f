package scheduler_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A fleet is five machines, a store that they share, and one on each of them.
type yearFleet struct {
	t        *testing.T
	seed     uint64
	margin   lease.Margin
	shared   *yearBook
	machines []*machine
	manifest func(version int) []*yearJob
	ending   sync.WaitGroup

	mu   sync.Mutex // guards what the plan does to the machines
	over bool       // nothing more is done to them

	dealt map[string]int // how often what was done
}

// A machine is what outlives its processes.
type machine struct {
	f       *yearFleet
	n       int
	own     *yearBook
	spools  map[job.Scope]*sim.Spool
	skew    time.Duration // of its time of day
	version int           // of the manifest on its disk
	now     *server       // nil: nothing is serving
	busy    bool          // something is being done to it
	boots   uint64
}

// A server is one process that serves.
type server struct {
	*sim.Process
	m        *machine
	clock    clock.Clock
	boot     func() time.Duration // as its guardians see it, which are not stopped with it
	serving  map[job.Scope]*scheduler.Server
	backends map[job.Scope]*scheduler.Backend
	accept   context.Context
	stop     context.CancelFunc
	done     chan struct{}
	loading  sync.Mutex
}

// drifting is a machine's clock: a little faster or slower than the store's, and set wrong.
type drifting struct {
	start time.Time
	rate  float64
	skew  time.Duration
}

func (c drifting) Wall() time.Time { return time.Now().Add(c.skew) }
func (c drifting) Boot() time.Duration {
	return time.Duration(float64(time.Since(c.start)) * c.rate)
}

func newFleet(t *testing.T, seed uint64, margin lease.Margin, machines int) *yearFleet {
	f := &yearFleet{t: t, seed: seed, margin: margin, dealt: map[string]int{}, shared: newYearBook(t, "shared", margin.TTL)}
	for n := range machines {
		name := fmt.Sprint("host-", n)
		f.machines = append(f.machines, &machine{f: f, n: n, own: newYearBook(t, name, margin.TTL),
			spools: map[job.Scope]*sim.Spool{job.Host: {}, job.Global: {}}})
	}
	return f
}

func (f *yearFleet) books() (all []*yearBook) {
	all = append(all, f.shared)
	for _, m := range f.machines {
		all = append(all, m.own)
	}
	return all
}

// up starts a server on the machine, unless there is one, or the plan is over.
func (m *machine) up() {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.busy = false; m.now == nil && !m.f.over {
		m.boot()
	}
}

// boot starts a server on the machine, with the manifest that is there. Call it with the fleet's lock held.
func (m *machine) boot() {
	s := m.process()
	m.now = s
	m.f.ending.Go(s.serve)
}

// process makes one of the machine, with its places. Call it with the fleet's lock held.
func (m *machine) process() *server {
	m.boots++
	seed := m.f.seed*1000 + uint64(m.n)*100 + m.boots
	rng := rand.New(rand.NewPCG(seed, 3))
	p := sim.NewProcess(seed, 0.01, 0.05, 400*time.Millisecond)
	raw := drifting{start: time.Now().Add(-time.Duration(seed) * time.Minute), rate: 1 + (rng.Float64()-0.5)*0.006, skew: m.skew}
	s := &server{Process: p, m: m, clock: p.Clock(raw), boot: raw.Boot, serving: map[job.Scope]*scheduler.Server{}, backends: map[job.Scope]*scheduler.Backend{}, done: make(chan struct{})}
	s.accept, s.stop = context.WithCancel(context.Background())
	self := lease.Holder{Host: fmt.Sprint("host-", m.n), PID: int(m.boots), Command: scheduler.ServerCommand("app")}
	for scope, y := range map[job.Scope]*yearBook{job.Host: m.own, job.Global: m.f.shared} {
		st := p.Reach(y.store(), y.server)
		if scope == job.Host {
			st = p.Here(y.store(), y.server)
		}
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, Clock: s.clock, Margin: m.f.margin})
		if err != nil {
			panic(err) // a margin that does not hold
		}
		backend := &scheduler.Backend{Name: y.name, Keeper: k, Book: tick.NewBook(st.Ticks, k, self), Ticks: st.Ticks, History: st.History, Self: self,
			Spool: m.spools[scope].Of(p), TimeOfDay: s.clock.Wall, Log: slog.New(slog.DiscardHandler)}
		s.serving[scope], s.backends[scope] = scheduler.NewServer(backend, "app"), backend
	}
	return s
}

// trigger fires the job's latest tick as somebody's cron does, by a process of its own.
func (s *server) trigger(y *yearJob) {
	p := s.backends[y.spec.Policy.Scope]
	j := y.build(s)
	if now, err := p.Keeper.Now(s.accept); err == nil {
		if at, ok := j.Due(now, now); ok {
			_, _, _ = p.Trigger(s.accept, s.accept, j, at)
		}
	}
	s.close()
}

func (s *server) close() {
	s.stop()
	for _, p := range s.backends {
		p.Keeper.Close()
	}
}

// serve loads the manifest as soon as the store lets it, and follows it.
func (s *server) serve() {
	defer close(s.done)
	for s.load() != nil && s.accept.Err() == nil {
		select {
		case <-time.After(5 * time.Second):
		case <-s.accept.Done():
		}
	}
	var both sync.WaitGroup
	for _, one := range s.serving {
		both.Go(func() { _ = one.Run(s.accept, 25*time.Second) })
	}
	both.Wait()
	s.close()
}

// load hands the manifest of the machine to both servers of the process.
func (s *server) load() error {
	s.m.f.mu.Lock()
	version, manifest := s.m.version, s.m.f.manifest
	s.m.f.mu.Unlock()
	jobs := map[job.Scope][]*scheduler.Job{}
	for _, y := range manifest(version) {
		jobs[y.spec.Policy.Scope] = append(jobs[y.spec.Policy.Scope], y.build(s))
	}
	ctx, cancel := context.WithTimeout(s.accept, 10*time.Second)
	defer cancel()
	for scope, one := range s.serving {
		if err := one.Load(ctx, jobs[scope]); err != nil {
			return err
		}
	}
	return nil
}

// reload has the process read what is on the machine's disk, until the store lets it.
func (s *server) reload() {
	s.m.f.ending.Go(func() {
		if !s.loading.TryLock() {
			return
		}
		defer s.loading.Unlock()
		for s.accept.Err() == nil && s.load() != nil {
			select {
			case <-time.After(time.Second):
			case <-s.accept.Done():
			}
		}
	})
}

// shut stops the server as SIGTERM does, and waits for it.
func (s *server) shut() {
	s.Stop(false)
	s.stop()
	<-s.done
}

// out takes the machine's server away from it.
func (m *machine) out() *server {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	s := m.now
	m.now = nil
	return s
}

// A yearJob is a job of a version of the manifest, and what its work is like.
type yearJob struct {
	spec    job.Spec
	work    func(at time.Time, attempt int) labour
	when    bool
	dormant func(machine int) bool
}

// labour is one attempt's.
type labour struct {
	takes time.Duration
	fails bool
	lags  time.Duration // how long it takes to stop when it is told to
}

func (y *yearJob) build(s *server) *scheduler.Job {
	spec := y.spec
	book := s.m.f.shared
	if spec.Policy.Scope == job.Host {
		book = s.m.own
	}
	j := &scheduler.Job{Spec: spec, Target: work{s, y, book}, Dormant: y.dormant != nil && y.dormant(s.m.n)}
	if y.when {
		j.When = func(context.Context) (bool, error) { return time.Now().Minute()%3 != 0, nil }
	}
	return j
}

// work is a command as the observer sees it: it goes on while its supervisor is stopped, until its
// guardian ends it, and is gone with a supervisor that vanishes.
type work struct {
	s    *server
	y    *yearJob
	book *yearBook
}

var errWork = fmt.Errorf("exit status 1")

func (w work) Attempt(ctx context.Context, c run.Call) run.Result {
	w.s.Awake()
	if _, kill := c.Lease.Deadlines(); w.s.Dead() || w.s.boot() >= kill || ctx.Err() != nil {
		return run.Result{Outcome: run.Failed, Stopped: true, Err: context.Cause(ctx)}
	}
	todo := w.y.work(c.Run.Tick, c.Attempt)
	shift := w.book.begin(c, w.y.spec.Policy.Concurrency != job.Allow)
	defer w.s.Awake() // its end is seen by who is awake
	defer w.book.end(shift)
	over := time.Now().Add(todo.takes)
	told := ctx.Done()
	stopped := false
	for {
		left := time.Until(over)
		if left <= 0 {
			break
		}
		_, kill := c.Lease.Deadlines()
		guard := kill - w.s.boot()
		if l := c.Lease.Loss(); l.Err != nil {
			guard = min(guard, l.Kill-w.s.boot())
		}
		if guard <= 0 {
			stopped = true
			break
		}
		t := time.NewTimer(min(left, guard))
		select {
		case <-t.C:
		case <-told:
			told, stopped = nil, true
			if end := time.Now().Add(min(todo.lags, c.StopGrace)); end.Before(over) {
				over = end
			}
		case <-w.s.Gone():
			t.Stop()
			return run.Result{Outcome: run.Failed, Stopped: true}
		}
		t.Stop()
	}
	switch {
	case stopped:
		return run.Result{Outcome: run.Failed, Stopped: true, Err: context.Cause(ctx)}
	case todo.fails:
		return run.Result{Outcome: run.Failed, Status: 1, Err: errWork}
	}
	return run.Result{Outcome: run.Succeeded}
}

// dice are drawn from the seed and what they are for, whatever else happens meanwhile.
func (f *yearFleet) dice(what string, at time.Time, n int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, what, at.UnixMicro(), n)
	return rand.New(rand.NewPCG(f.seed, h.Sum64()))
}
