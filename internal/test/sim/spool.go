package sim

import (
	"errors"
	"sync"

	"github.com/dibs-run/dibs/scheduler"
)

// A Spool is a host's, in memory: it outlives the processes of its host. The zero Spool is empty.
type Spool struct {
	mu         sync.Mutex
	items      []scheduler.Item
	delivering bool
}

// Len is how many items wait.
func (s *Spool) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}

// Put keeps an item.
func (s *Spool) Put(i scheduler.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, i)
	return nil
}

// Deliver hands over each item until one fails, which is then the last. While somebody else
// delivers, it does nothing.
func (s *Spool) Deliver(give func(scheduler.Item) error) error {
	s.mu.Lock()
	if s.delivering {
		s.mu.Unlock()
		return nil
	}
	s.delivering = true
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.delivering = false; s.mu.Unlock() }()
	for {
		s.mu.Lock()
		if len(s.items) == 0 {
			s.mu.Unlock()
			return nil
		}
		next := s.items[0]
		s.mu.Unlock()
		err := give(next) // without the lock: it may take long, and there is more to keep
		s.mu.Lock()
		switch {
		case err == nil:
			s.items = s.items[1:]
		case !errors.Is(err, scheduler.ErrEnough):
			s.items = append(s.items[1:], next)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// Of is the spool as a process of its host uses it, which puts nothing there once it is gone.
func (s *Spool) Of(p *Process) scheduler.Spool { return ofProcess{s, p} }

type ofProcess struct {
	*Spool
	p *Process
}

func (s ofProcess) Put(i scheduler.Item) error {
	if s.p.Awake(); s.p.Dead() {
		return errDead
	}
	return s.Spool.Put(i)
}
