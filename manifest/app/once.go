package app

import (
	"context"
	"sync"
)

// A State is what is known about a run.
type State int

// The states of a run.
const (
	Begun   State = iota // it is the caller's to do, until End
	Working              // another attempt is at it
	Done                 // its work is done
)

// Once remembers runs, so that a run that is sent again does its work once. Implement it in the database that the
// work writes to: End can then join the work's own transaction, and it holds for several processes and through a
// crash. It is safe for concurrent use.
type Once interface {
	// Begin claims a run by its id. One caller gets Begun.
	Begin(ctx context.Context, runID string) (State, error)
	// End follows Begun. If the run is done, it is remembered; otherwise it is forgotten, and the next attempt does
	// its work. ctx does not end with the request.
	End(ctx context.Context, runID string, done bool) error
}

// Memory returns a Once of this process, which remembers at most the given number of the newest runs; 0: 10,000.
func Memory(most int) Once {
	if most <= 0 {
		most = 10_000
	}
	return &memory{most: most, runs: map[string]bool{}}
}

type memory struct {
	most int

	mu   sync.Mutex
	runs map[string]bool // is it done?
	done []string        // those that are, the oldest first
}

func (m *memory) Begin(_ context.Context, id string) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	done, known := m.runs[id]
	switch {
	case done:
		return Done, nil
	case known:
		return Working, nil
	}
	m.runs[id] = false
	return Begun, nil
}

func (m *memory) End(_ context.Context, id string, done bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !done {
		delete(m.runs, id)
		return nil
	}
	m.runs[id] = true
	if m.done = append(m.done, id); len(m.done) > m.most {
		delete(m.runs, m.done[0])
		m.done = m.done[1:]
	}
	return nil
}
