//go:build linux

package chaos

import (
	"context"
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
			return plan{stages: []stage{{do: func() error { c.primary().kill(); return c.revive() }}}}
		}},
		{name: "store stopped", uses: "store", plan: func(r *round, _ *host) plan {
			return lasting("", between(r.rnd, time.Second, r.long),
				func() error { c.primary().signal(syscall.SIGSTOP); return nil },
				func() error { c.primary().signal(syscall.SIGCONT); return nil })
		}},
		{name: "store's disk full", uses: "store", plan: func(r *round, _ *host) plan {
			p := diskFull(r, func() string { return c.primary().dir })
			p.stages = append(p.stages, stage{after: time.Second, do: c.revive}) // it may have given up
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

// peace is how long a holder may need to learn of a step, and to stop for it.
const peace = 8 * time.Second

// clockKind steps the store's clock and, a while later, back. Sometimes the store is restarted in between, and sees
// time step while nobody is there.
func clockKind(name string, by, held time.Duration) kind {
	return kind{name: fmt.Sprintf("%s of %s", name, by), uses: "store", plan: func(r *round, _ *host) plan {
		step := func(to, by time.Duration) func() error {
			return func() error {
				r.steps = append(r.steps, clockStep{bootTime(), by})
				r.say("the store's clock steps by %s", by)
				return r.cluster.step(to)
			}
		}
		p := plan{stages: []stage{{do: step(by, by), alone: true}, {after: peace, quiet: true}}}
		if r.rnd.IntN(3) == 0 {
			p.detail = "with a restart in between"
			p.stages = append(p.stages, stage{do: func() error { r.cluster.primary().kill(); return r.cluster.revive() }})
		}
		short := held < 3*peace // nothing else begins then: it would have to be over before the step back
		p.stages = append(p.stages, stage{after: held - peace, do: step(0, -by), alone: true, quiet: short}, stage{after: peace, quiet: true})
		return p
	}}
}

// failover promotes a replica that has fallen behind, and some time later goes back to the old primary, which knows
// nothing of what happened meanwhile. Then the replica is made anew.
func failover(r *round, _ *host) plan {
	c := r.cluster
	if !c.isReplicated() {
		return plan{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.follows(ctx, c.nodes[0], c.nodes[1]); err != nil {
		r.say("the replica has fallen behind by itself, and is made anew: %v", err)
		c.replicate()
		return plan{}
	}
	lag := between(r.rnd, time.Second, r.long)
	away := between(r.rnd, r.long, 3*r.long)
	dies := r.rnd.IntN(2) == 0
	lost := len(r.lost)
	return plan{detail: fmt.Sprintf("after %s of lag, for %s, the primary killed: %v", lag, away, dies), stages: []stage{
		{do: func() error {
			r.lost = append(r.lost, lostSpan{bootTime(), never})
			c.replication.refuse(true)
			return nil
		}},
		{after: lag, do: func() error {
			if dies {
				c.nodes[0].kill()
			}
			if err := c.promote(c.nodes[1]); err != nil {
				return fmt.Errorf("promoting: %w", err)
			}
			c.serving = 1
			r.moveStore()
			r.say("the replica is promoted")
			return nil
		}},
		{after: away, do: func() error {
			c.serving = 0
			if err := c.revive(); err != nil {
				return err
			}
			r.moveStore()
			r.say("the old primary serves again")
			r.lost[lost].until = bootTime()
			return nil
		}},
		{after: time.Second, do: func() error { c.replicate(); return nil }},
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

// replicate makes the second node a fresh replica of the first, in the background: the primary may be harmed
// meanwhile.
func (c *cluster) replicate() {
	c.replication.refuse(false)
	c.following = make(chan struct{})
	go func() {
		defer close(c.following)
		for {
			c.nodes[1].kill()
			err := c.nodes[1].empty()
			if err == nil {
				err = c.follow(c.nodes[1], replicationPort)
			}
			if err == nil {
				return
			}
			c.tell("a fresh replica: %v", err)
			select {
			case <-c.closing:
				return
			case <-time.After(time.Second):
			}
		}
	}()
}

func (c *cluster) isReplicated() bool {
	select {
	case <-c.following:
		return true
	default:
		return false
	}
}

// moveStore leads every host's address to the serving node.
func (r *round) moveStore() {
	for _, h := range r.hosts {
		h.store.move(r.cluster.primary().address())
	}
}
