package queue

import (
	"context"

	"github.com/dibs-run/dibs/queue/driver"
)

// strays are tasks that the store gave this worker in an answer that was lost, so that nobody works them.
//
// A task that is unknown here may merely be on its way. It is stray if the store says in two answers that this worker
// has it, and the fetches that had begun by the first had all ended when the second was asked for.
type strays struct {
	begun, ended int                // fetches
	unknown      map[driver.Ref]int // of the last answer: how many fetches had begun
}

// giveBack hands back what is stray by an answer that was asked for when some fetches had ended.
func (s *session) giveBack(ctx context.Context, ended int, mine []driver.RunningTask) {
	var stray []driver.Ref
	s.mu.Lock()
	before := s.strays.unknown
	s.strays.unknown = make(map[driver.Ref]int)
	for _, a := range mine {
		if s.held[a.ID] != nil || s.ending[a.ID] {
			continue
		}
		begun, again := before[a.Ref]
		switch {
		case !again:
			s.strays.unknown[a.Ref] = s.strays.begun
		case ended < begun:
			s.strays.unknown[a.Ref] = begun
		default:
			stray = append(stray, a.Ref)
		}
	}
	s.mu.Unlock()
	s.giveBackAll(ctx, stray)
}

func (s *session) giveBackAll(ctx context.Context, stray []driver.Ref) {
	if len(stray) == 0 {
		return
	}
	s.w.log.Warn("handing back tasks, because the store gave them in an answer that was lost", "tasks", len(stray))
	now := s.now()
	for _, ref := range stray {
		s.mu.Lock()
		s.ending[ref.ID] = true
		s.mu.Unlock()
		select {
		case s.ends <- end{Completion: driver.Completion{Ref: ref, Verdict: driver.Return, Outcome: "returned", Started: now, Ended: now,
			Error: "the store's answer to the fetch was lost"}}:
		case <-ctx.Done():
			s.mu.Lock()
			delete(s.ending, ref.ID)
			s.mu.Unlock()
			return
		}
	}
}

// idle reports whether there is nothing that the store has to be asked about often.
func (s *session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) == 0 && len(s.strays.unknown) == 0
}

// fetches returns how many fetches have ended.
func (s *session) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strays.ended
}
