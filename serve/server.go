package serve

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/job"
)

// A Server serves the jobs of a manifest: every server of the fleet runs one, and the store decides which of them
// runs each tick. Create one with New. It is safe for concurrent use.
type Server struct {
	*service
	reloads chan reloading
	ended   chan struct{} // closed when Run returns
	serving sync.WaitGroup
	told    time.Time // when it was told to stop
	jobs    int       // of the first manifest

	failed    error  // of the servers; guarded by mu
	mirroring func() // ends the copying of this host's own jobs, after one last time; nil: there is none
}

// New checks where the jobs live and where they are declared; it opens and reads nothing yet. The error is a
// *Refusal.
func New(at Store, m Manifest, o Options) (*Server, error) {
	s, err := newService(at, m, o, false)
	if err != nil {
		return nil, err
	}
	return &Server{service: s, reloads: make(chan reloading), ended: make(chan struct{})}, nil
}

// Run reads the manifest and serves its jobs until ctx ends. Then it drains: it claims no new ticks, lets runs
// continue for Options.Drain, stops those that still run, releases the leases, gives hooks a few seconds to report
// what is left, and returns nil. It loads the manifest again when a file of it changes, and when Reload is called.
//
// Before it serves anything, Run returns a *Refusal for a manifest that is wrong, and an error that wraps
// lease.ErrUnavailable if the store does not answer. Once it serves, it waits until an unavailable store is back,
// and if a new manifest is wrong, it logs that and keeps the previous one. Call it once per Server. If the cause of
// ctx is an os.Signal, the log names it.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.ended)
	defer s.end()
	look := newWatch(s.from)
	m, err := s.load(ctx)
	if err == nil {
		err = s.apply(ctx, m)
	}
	switch {
	case ctx.Err() != nil:
		s.log.Info("stopped before it served anything", "event", "draining")
		return nil
	case err != nil:
		return err
	}
	s.jobs = len(m.specs)
	s.log.Info("serving", "event", "serving", "app", s.app, "jobs", len(m.specs), "manifest", s.from.String(), "reloaded_on", s.reloadedOn(look))
	s.tell(Serving)
	s.start(ctx)
	s.serving.Go(func() { s.follow(ctx, look) })
	<-ctx.Done()
	return s.drain(ctx)
}

func (s *Server) tell(state State) {
	if s.o.OnState != nil {
		s.o.OnState(state)
	}
}

// reloadedOn says what makes the server read its manifest again.
func (s *Server) reloadedOn(w *watch) string {
	if w.from == nil {
		return s.o.ReloadedOn
	}
	return s.o.ReloadedOn + " and changes"
}

// App returns the manifest's app, once the server is serving.
func (s *Server) App() string { return s.app }

// Jobs returns the number of jobs in the manifest that was served first.
func (s *Server) Jobs() int { return s.jobs }

// StopGrace returns the longest time that any job served so far may take to stop; 0: none was served.
func (s *Server) StopGrace() time.Duration { return s.longestStop() }

// Alive returns if nothing that a reload or a drain needs is stuck. It is for a watchdog, which ends the process if
// Alive does not return.
func (s *Server) Alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// start runs each server that is not running yet.
func (s *Server) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startMirror()
	for _, h := range s.homes {
		if h.serves {
			continue
		}
		h.serves = true
		s.serving.Go(func() {
			err := h.server.Run(ctx, s.o.Drain)
			s.mu.Lock()
			s.failed = errors.Join(s.failed, err)
			s.mu.Unlock()
		})
	}
}

// drain lets running work end.
func (s *Server) drain(ctx context.Context) error {
	s.told = time.Now()
	s.tell(Draining)
	var by os.Signal
	if errors.As(context.Cause(ctx), &by) {
		s.log.Info("draining: no new ticks; running work goes on for a while", "event", "draining", "signal", by.String(), "drain", s.o.Drain)
	} else {
		s.log.Info("draining: no new ticks; running work goes on for a while", "event", "draining", "drain", s.o.Drain)
	}
	idle := make(chan struct{})
	go func() { s.serving.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-s.o.Hurry:
		s.log.Warn("second signal: ending the drain", "event", "drain-ended")
		s.mu.Lock()
		for _, h := range s.homes {
			h.server.Hurry()
		}
		s.mu.Unlock()
		<-idle
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mirroring != nil {
		s.mirroring()
	}
	for scope, h := range s.homes {
		s.log.Info("served: "+h.server.Stats.String(), "event", "served", "scope", scope)
	}
	return s.failed
}

// end releases everything.
func (s *Server) end() {
	ctx, cancel := context.WithTimeout(context.Background(), hookDrain(s.o.Drain, time.Since(s.told)))
	defer cancel()
	s.close(ctx)
}

// startMirror starts to copy this host's own jobs to the shared store, if there are both, until what is served ends.
// Call it with mu held.
func (s *Server) startMirror() {
	way, ok := s.mirror()
	if s.mirroring != nil || !ok {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		way.Follow(ctx)
	}()
	s.mirroring = func() { end(); <-done }
}

// mirror returns the way from this host's own jobs to the shared store, if there are both.
func (s *service) mirror() (mirror.Way, bool) {
	host := s.homes[job.Host]
	if host == nil || !s.at.shared() || host.at.Config.URL == nil {
		return mirror.Way{}, false
	}
	return mirror.Way{From: host.Backend, Dir: host.at.Config.URL.Path, Namespace: s.at.Config.Namespace, Log: s.log,
		Open: func(ctx context.Context) (*backend.Backend, error) {
			return s.at.open(ctx, s.o.backend("", s.app).Silent())
		}}, true
}
