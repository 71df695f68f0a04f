package guardian

import (
	"os"
	"strings"
	"syscall"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// mainEnded does what the policy says with processes that outlive the main one (rule L7).
func (g *guard) mainEnded() {
	if !g.anyLeft() {
		return
	}
	switch g.policy {
	case Leave:
		g.letGo()
		g.finish()
		os.Exit(0)
	case Kill:
		g.mu.Lock()
		g.stop = earliest(g.stop, bootTime()+max(g.grace, 1))
		g.mu.Unlock()
		if g.setTimer() != nil {
			g.doom()
		}
		g.terminate()
	}
}

func (g *guard) anyLeft() bool {
	return awaitDead(syscall.WNOHANG) == nil
}

// letGo moves what is left out of the run's cgroup, so that this can be removed.
func (g *guard) letGo() {
	if g.cgroup == "" {
		return
	}
	parent := g.cgroup[:strings.LastIndexByte(g.cgroup, '/')]
	for range 20 { // the next round finds processes that forked meanwhile
		pids := cgroup.Procs(g.cgroup)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = cgroup.Move(parent, pid)
		}
	}
}
