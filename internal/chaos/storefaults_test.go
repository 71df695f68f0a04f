//go:build linux

package chaos

import (
	"fmt"
	"syscall"
	"time"
)

// A clockStep is one of the store's clock.
type clockStep struct {
	at time.Duration // boot clock
	by time.Duration
}

// A lostSpan is a time of which a failover has lost the records: what was acknowledged there may be forgotten.
type lostSpan struct{ from, until time.Duration } // boot clock

// storeKinds are the faults of the store itself.
func storeKinds(c *cluster) (kinds []kind) {
	kinds = []kind{
		{name: "store killed", uses: "store", plan: func(r *round, _ *host) plan {
			return lasting("", between(r.rnd, 100*time.Millisecond, r.long), func() error { c.primary().kill(); return nil }, c.revive)
		}},
		{name: "store restarted", uses: "store", plan: func(*round, *host) plan {
			return plan{stages: []stage{{0, func() error { c.primary().kill(); return c.revive() }}}}
		}},
		{name: "store stopped", uses: "store", plan: func(r *round, _ *host) plan {
			return lasting("", between(r.rnd, time.Second, r.long),
				func() error { c.primary().signal(syscall.SIGSTOP); return nil },
				func() error { c.primary().signal(syscall.SIGCONT); return nil })
		}},
		{name: "store's disk full", uses: "store", plan: func(r *round, _ *host) plan {
			p := diskFull(r, func() string { return c.primary().dir })
			p.stages = append(p.stages, stage{time.Second, c.revive}) // it may have given up
			return p
		}},
		{name: "failover and fail-back", uses: "store", plan: failover},
	}
	if c.noClock == nil {
		for _, by := range []time.Duration{20 * time.Second, -20 * time.Second, time.Hour, -time.Hour} {
			kinds = append(kinds, clockKind("clock step", by, 75*time.Second), clockKind("clock glitch", by, 10*time.Second))
		}
	}
	return kinds
}

// clockKind steps the store's clock and, a while later, back. A minute is how long schedules follow the old line (L12).
func clockKind(name string, by, held time.Duration) kind {
	return kind{name: fmt.Sprintf("%s of %s", name, by), uses: "store", alone: true, plan: func(r *round, _ *host) plan {
		step := func(to, by time.Duration) func() error {
			return func() error {
				r.steps = append(r.steps, clockStep{bootTime(), by})
				return r.cluster.step(to)
			}
		}
		p := lasting("", held, func() error { return step(by, by)() }, step(0, -by))
		// Nothing else goes wrong while the holders learn of the last step.
		p.stages = append(p.stages, stage{8 * time.Second, func() error { return nil }})
		return p
	}}
}

// failover promotes a replica that has fallen behind, and some time later goes back to the old primary, which knows nothing of
// what happened meanwhile. Then the replica is made anew.
func failover(r *round, _ *host) plan {
	c := r.cluster
	lag := between(r.rnd, time.Second, r.long)
	away := between(r.rnd, r.long, 3*r.long)
	dies := r.rnd.IntN(2) == 0
	lost := len(r.lost)
	return plan{detail: fmt.Sprintf("after %s of lag, for %s, the primary killed: %v", lag, away, dies), stages: []stage{
		{0, func() error {
			r.lost = append(r.lost, lostSpan{bootTime(), 1 << 62})
			c.replication.refuse(true)
			return nil
		}},
		{lag, func() error {
			if dies {
				c.nodes[0].kill()
			}
			if err := c.promote(c.nodes[1]); err != nil {
				return fmt.Errorf("promoting: %w", err)
			}
			c.serving = 1
			r.moveStore()
			return nil
		}},
		{away, func() error {
			c.serving = 0
			if err := c.revive(); err != nil {
				return err
			}
			r.moveStore()
			r.lost[lost].until = bootTime()
			return nil
		}},
		{time.Second, c.replicate},
	}}
}

// primary is the node that the address leads to.
func (c *cluster) primary() *node { return c.nodes[c.serving] }

// revive starts the serving node if it does not run.
func (c *cluster) revive() error {
	if n := c.primary(); !n.alive() {
		return n.start()
	}
	return nil
}

// replicate makes the second node a fresh replica of the first.
func (c *cluster) replicate() error {
	n := c.nodes[1]
	n.kill()
	c.replication.refuse(false)
	if err := n.empty(); err != nil {
		return err
	}
	if err := c.follow(n, replicationPort); err != nil {
		return fmt.Errorf("a fresh replica: %w", err)
	}
	return nil
}

// moveStore leads every host's address to the serving node.
func (r *round) moveStore() {
	for _, h := range r.hosts {
		h.store.move(r.cluster.primary().address())
	}
}
