package serve

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// ErrStopped is returned by Reload once the server has stopped.
var ErrStopped = errors.New("serve: the server has stopped")

// A reloading is a call of Reload.
type reloading struct{ done chan error }

// Reload reads the manifest again and serves it instead of the previous one, without losing a tick. It waits until
// the server is serving. The error is a *Refusal if the new manifest is wrong; the previous one then stays in force.
// If the store does not answer (lease.ErrUnavailable), the server tries again by itself. Both are logged.
func (s *Server) Reload(ctx context.Context) error {
	r := reloading{make(chan error, 1)}
	select {
	case s.reloads <- r:
		return <-r.done
	case <-s.ended:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow reloads the manifest when it is asked to and when a file changes, until ctx ends.
func (s *Server) follow(ctx context.Context, w *watch) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	delayed := false // a reload that the store has not let through yet
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.reloads:
			done, err := s.reload(ctx, s.o.ReloadedOn)
			delayed = !done
			r.done <- err
		case <-look.C:
			switch {
			case w.changed():
				if done, _ := s.reload(ctx, "the file changed"); done {
					w.seen()
				}
			case delayed:
				done, _ := s.reload(ctx, s.o.ReloadedOn)
				delayed = !done
			}
		}
	}
}

// reloadTime bounds the handing over of a manifest; each of its requests has its own bound. What is not done by then
// continues at the next try.
const reloadTime = time.Minute

// reload replaces the manifest. A manifest with an error changes nothing. done is false if the store did not answer,
// and the same text must be tried again.
func (s *Server) reload(ctx context.Context, why string) (done bool, err error) {
	s.tell(Reloading)
	defer s.tell(Serving)
	m, err := s.load(ctx) // which bounds itself
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, reloadTime)
		defer cancel()
		err = s.apply(bounded, m)
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx) // it is being drained
	case errors.Is(err, lease.ErrUnavailable):
		s.log.Warn("the store does not answer, so the new manifest is not loaded yet", "event", "reload-delayed", "why", why, "error", err)
		return false, err
	case err != nil:
		s.log.Error("the new manifest was not loaded; the old one stays in force", "event", "reload-failed", "why", why, "error", err)
		return true, err
	}
	s.start(ctx)
	s.log.Info("manifest reloaded", "event", "reloaded", "why", why, "jobs", len(m.specs))
	return true, nil
}
