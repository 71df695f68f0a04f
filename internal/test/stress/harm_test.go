//go:build linux

package stress

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// harm does something while holders are in the middle of their work.
func (s *storm) harm(share float64, what string, do func()) {
	s.Helper()
	s.reach(share)
	if len(s.harms) == 0 {
		s.harms = append(s.harms, fmt.Sprintf("%.0f cycles/s before any harm", float64(s.cycles())/time.Since(s.from).Seconds()))
	}
	s.lingering.Store(true)
	soon := time.Now().Add(2 * time.Second)
	s.await("work under way", func() bool {
		n := s.working()
		return n == keys || n > 0 && time.Now().After(soon)
	})
	s.harms = append(s.harms, fmt.Sprintf("%s at %d cycles with %d at work", what, s.cycles(), s.working()))
	do()
	s.lingering.Store(false)
}

// working is how many keys have a live process at work.
func (s *storm) working() (n int) {
	for i := range s.places {
		if v := visit(s.places[i].inside.Load()); v != 0 && !dead(v.pid()) {
			n++
		}
	}
	return n
}

// killHolder kills a process in the middle of its clients' work with SIGKILL, and starts another in
// its place. Its entries stay on the board until the next holders find them, and find it dead.
func (s *storm) killHolder() {
	s.Helper()
	for i := range s.places {
		v := visit(s.places[i].inside.Load())
		for slot, holder := range s.running {
			if v != 0 && holder.cmd.Process.Pid == v.pid() {
				before := s.cleared.Load()
				s.kill(holder)
				left := s.left(v.pid())
				killed := time.Now()
				s.spawn(slot)
				s.lingering.Store(false)
				s.await("the next holders", func() bool { return s.left(v.pid()) == 0 })
				s.harms = append(s.harms, fmt.Sprintf("its keys were taken again after %s", time.Since(killed).Round(time.Millisecond)))
				s.await("the next holders' word", func() bool { return s.cleared.Load()-before >= int64(left) })
				return
			}
		}
	}
	s.Fatal("nobody is at work: there is no one to kill")
}

// left is how many entries of a process are on the board.
func (s *storm) left(pid int) (n int) {
	for i := range s.places {
		if visit(s.places[i].inside.Load()).pid() == pid {
			n++
		}
	}
	return n
}

// kill returns when the process is dead and reaped.
func (s *storm) kill(p *process) {
	s.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	s.await("the death of a process", func() bool { return s.running[p.slot] != p })
}

// restart kills the server with SIGKILL and starts it again. Leases last through it: who is at
// work goes on, and renews.
func (s *storm) restart(server *testserver.Server) {
	server.Restart()
	time.Sleep(ttl / 2) // several heartbeats of those at work
}

// outage takes the server away for two TTLs. By the end of the first all work must be gone.
func (s *storm) outage(away, back func()) {
	s.Helper()
	away()
	expired := time.Now().Add(ttl)
	s.await("the end of the leases", func() bool { return time.Now().After(expired) })
	if n := s.working(); n != 0 {
		s.Errorf("%d are still at work when their leases may have expired", n)
	}
	s.await("a second TTL", func() bool { return time.Now().After(expired.Add(ttl)) })
	back()
}
