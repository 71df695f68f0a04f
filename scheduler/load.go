package scheduler

import (
	"context"
	"sync"
	"time"
)

// Load registers jobs and replaces those loaded before. A job whose definition did not change loses no tick; the
// ticks of a new one begin now (rule T4), those of a changed one with its registration (rule T11).
func (s *Server) Load(ctx context.Context, jobs []*Job) error {
	p, err := s.Prepare(ctx, jobs)
	if err != nil {
		return err
	}
	defer p.Close()
	p.Swap()
	return nil
}

// Prepared are jobs that are registered but not served yet.
type Prepared struct {
	s       *Server
	entries []*entry
	now     time.Time
	close   func()
}

// A Change is what a server will serve.
type Change struct {
	Server *Server
	Jobs   []*Job
}

// PrepareAll prepares several servers, in order. Nothing is registered anywhere unless all jobs are valid and all
// stores answer: a server whose own registration is newer than what it serves would fire nothing of what has changed
// (rule T11) while another store is unavailable. The caller closes the result.
func PrepareAll(ctx context.Context, changes []Change) (all []*Prepared, err error) {
	for _, c := range changes {
		if err := c.Server.registrar.check(ctx, c.Jobs); err != nil {
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

// Prepare is the part of Load that can fail: it registers the jobs, and what the server serves stays unchanged until
// Swap. The caller closes the result.
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
	registered, err := s.registrar.register(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		p.entries = append(p.entries, s.entry(ctx, j, registered[i]))
	}
	if p.now, err = s.b.Keeper.Now(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the loading, whether or not the jobs were swapped.
func (p *Prepared) Close() { p.close() }

// Swap makes the server serve the jobs instead of those before. It cannot fail.
func (p *Prepared) Swap() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.jobs
	s.jobs, s.lookback = make(map[string]*entry, len(p.entries)), 0
	for _, e := range p.entries {
		name := e.Spec.Key()
		s.takeUp(e, before[name], p.now)
		s.jobs[name] = e
	}
	s.sweeper.turns.among(s.app, s.jobs)
	s.poke()
}
