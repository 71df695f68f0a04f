package lease

import (
	"cmp"
	"fmt"
	"time"
)

// A Margin is the arithmetic by which a holder stops its own work before the lease can be granted elsewhere (rule
// L3). Create one with MarginFor and change individual fields.
type Margin struct {
	// TTL is how long a lease lasts without renewal. Choose it for the outage of the store that a run should
	// survive, never for the length of the job. Default 15 s.
	TTL time.Duration
	// Heartbeat is the time between renewals. Default 2 s.
	Heartbeat time.Duration
	// RPCTimeout bounds one request to the store. Default 2 s.
	RPCTimeout time.Duration
	// LostGrace is how long work may take to stop, after it was told that its lease is lost, before it is killed.
	// Default 5 s.
	LostGrace time.Duration
	// Kill is the time reserved for a kill to take effect. Default 1 s.
	Kill time.Duration
	// Rho bounds the drift between this machine's clock and the store's. Default 0.01.
	Rho float64
}

// DefaultTTL is the default TTL of a lease.
const DefaultTTL = 15 * time.Second

// MarginFor returns the default margin for a TTL; 0 means DefaultTTL. From 15 s up, a longer TTL only makes the
// survivable outage longer. Below 15 s all figures shrink in proportion.
func MarginFor(ttl time.Duration) Margin {
	ttl = cmp.Or(ttl, DefaultTTL)
	m := Margin{TTL: ttl, Heartbeat: 2 * time.Second, RPCTimeout: 2 * time.Second,
		LostGrace: 5 * time.Second, Kill: time.Second, Rho: 0.01}
	if ttl < DefaultTTL {
		f := float64(ttl) / float64(DefaultTTL)
		for _, d := range []*time.Duration{&m.Heartbeat, &m.RPCTimeout, &m.LostGrace, &m.Kill} {
			*d = time.Duration(float64(*d) * f)
		}
	}
	return m
}

// Check returns an error, with the numbers, for a margin that could let two holders overlap.
func (m Margin) Check() error {
	if m.TTL <= 0 || m.Heartbeat <= 0 || m.RPCTimeout <= 0 || m.LostGrace < 0 || m.Kill < 0 || m.Rho < 0 || m.Rho >= 1 {
		return fmt.Errorf("%w: ttl, heartbeat and rpc timeout must be positive, graces not negative, rho in [0, 1): %+v", ErrMargin, m)
	}
	if need := m.need(); m.TTL < need {
		return fmt.Errorf("%w: ttl %s is shorter than 3·heartbeat %s + rpc timeout %s + lost grace %s + kill %s + rho·ttl %s = %s; raise ttl (?ttl= in the store's address) or lower the others",
			ErrMargin, m.TTL, 3*m.Heartbeat, m.RPCTimeout, m.LostGrace, m.Kill, m.drift(), need)
	}
	return nil
}

func (m Margin) need() time.Duration {
	return 3*m.Heartbeat + m.RPCTimeout + m.LostGrace + m.Kill + m.drift()
}

func (m Margin) drift() time.Duration { return time.Duration(float64(m.TTL) * m.Rho) }

// Safe returns how long after sending a successful request the hold is certain to last.
func (m Margin) Safe() time.Duration { return m.TTL - m.drift() }

// TermAfter returns when work is told to stop, counted like Safe.
func (m Margin) TermAfter() time.Duration { return m.Safe() - m.LostGrace - m.Kill }

// KillAfter returns when work that did not stop by itself is killed, counted like Safe.
func (m Margin) KillAfter() time.Duration { return m.Safe() - m.Kill }

// Outage returns the longest silence of the store that does not affect work, counted like Safe: from the sending of
// the last answered renewal.
func (m Margin) Outage() time.Duration { return m.TermAfter() - m.RPCTimeout }

// Survives returns the longest silence of the store that certainly does not affect work, counted from its beginning.
// Up to one heartbeat has passed then since the last renewal. For a margin that passes Check it is at least two
// heartbeats.
func (m Margin) Survives() time.Duration { return m.Outage() - m.Heartbeat }
