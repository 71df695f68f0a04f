package scheduler

import (
	"context"

	"github.com/dibs-run/dibs/fleet"
)

// describe says what this server is, for the fleet's record. It takes the lease of this process if there is none.
func (s *Server) describe(ctx context.Context) (fleet.Process, error) {
	me, err := s.b.Book.Server(ctx)
	if err != nil {
		return fleet.Process{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fleet.Process{Lease: me.Ref(), Host: s.b.Self.Host, PID: s.b.Self.PID, App: s.app, Jobs: len(s.jobs), Draining: s.draining.Load()}, nil
}
