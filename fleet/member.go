package fleet

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// State is what became of a process.
type State string

// The states.
const (
	Up       State = "up"       // its lease is live
	Draining State = "draining" // it is up, and takes nothing new
	Silent   State = "silent"   // its lease is live, but it has not reported for three minutes: it is stopped, or hangs
	Gone     State = "gone"     // its lease is not live, and it has not said that it ended: it died, or is cut off
	Ended    State = "ended"    // it said that it ends
)

// A Member is a process of the fleet, and what became of it.
type Member struct {
	Process
	State State
	// Heard is when it was heard of last: the last renewal of its lease, or its last report.
	Heard time.Time
	// Regained is when it got the lease that it has, if it lost an earlier one: the store was away or forgot
	// everything, or the process was cut off, or stopped. Zero: it has had one since it began.
	Regained time.Time
}

// Alive reports whether the process holds its lease.
func (m Member) Alive() bool { return m.State == Up || m.State == Draining || m.State == Silent }

// A Census is the members of a fleet at an instant of the store's clock, the latest to report first.
type Census struct {
	Now     time.Time
	Members []Member
}

// silentAfter is how long a process has not reported that is silent. A directory's locks are the kernel's: they last
// as long as a process does, also while it is stopped.
const silentAfter = 3 * Every

// beginning is how long after Since a process gets its first lease at the latest: Since is measured by the store's
// clock from afar.
const beginning = 5 * time.Second

// mostKeys bounds how many leases one request reads.
const mostKeys = 500

// Read takes the census. The error wraps lease.ErrUnavailable if the store does not answer.
func Read(ctx context.Context, s Store, leases lease.Store) (c Census, err error) {
	all, now, err := s.Processes(ctx)
	if err != nil {
		return c, err
	}
	c.Now = now
	c.Members = make([]Member, len(all))
	under := map[lease.Key][]*Member{}
	for i, p := range all {
		m := &c.Members[i]
		if *m = (Member{Process: p, State: Ended, Heard: latest(p.Seen, p.Since)}); !p.Ended {
			m.State = Gone
			under[p.Lease.Key] = append(under[p.Lease.Key], m)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(under)), mostKeys) {
		r, err := leases.Read(ctx, part)
		if err != nil {
			return c, err
		}
		for i, a := range r.Answers {
			for _, m := range under[part[i]] {
				m.see(a.Record, r.Now)
			}
		}
	}
	return c, nil
}

// see concludes from the record of its lease what became of a member.
func (m *Member) see(r lease.Record, now time.Time) {
	if r.Owner != m.Lease.Owner || r.Token != m.Lease.Token {
		return
	}
	m.Heard = latest(m.Heard, r.Renewed)
	if r.Acquired.After(m.Since.Add(beginning)) {
		m.Regained = r.Acquired
	}
	switch {
	case !r.Expires.After(now):
	case now.Sub(m.Seen) > silentAfter:
		m.State, m.Heard = Silent, m.Seen
	case m.Draining:
		m.State = Draining
	default:
		m.State = Up
	}
}

// Service is who serves an app.
type Service struct {
	// Up are those that take new work. Last is the one of the others that was heard of last, one that drains before
	// all others; nil: there was none for a day.
	Up   []Member
	Last *Member
}

// Serving returns who serves an app.
func (c Census) Serving(app string) (s Service) {
	for i, m := range c.Members {
		switch {
		case m.App != app || app == "":
		case m.State == Up:
			s.Up = append(s.Up, m)
		case s.Last == nil || m.State == Draining || s.Last.State != Draining && m.Heard.After(s.Last.Heard):
			s.Last = &c.Members[i]
		}
	}
	return s
}

// Current returns the members without those that ended, and without those that are gone and that another process has
// replaced: one of the same host that does the same, and began after they were heard of last. Each replaces one at
// most. (Who began within a heartbeat before another one died is taken for its successor.)
func (c Census) Current() (all []Member) {
	type place struct{ host, app, queues string }
	of := map[place][]Member{}
	for _, m := range c.Members {
		at := place{m.Host, m.App, strings.Join(m.Queues, "\n")}
		of[at] = append(of[at], m)
	}
	replaced := map[lease.Nonce]bool{}
	for _, there := range of {
		began := make([]time.Time, len(there))
		for i, m := range there {
			began[i] = m.Since
		}
		slices.SortFunc(began, time.Time.Compare)
		// Who may replace one of these may replace the next.
		slices.SortFunc(there, func(a, b Member) int { return b.Heard.Compare(a.Heard) })
		for used, i := 0, 0; i < len(there); i++ {
			m := there[i]
			after := sort.Search(len(began), func(i int) bool { return began[i].After(m.Heard) })
			if !m.Alive() && len(began)-after > used {
				replaced[m.ID] = true
				used++
			}
		}
	}
	for _, m := range c.Members {
		if m.Alive() || m.State == Gone && !replaced[m.ID] {
			all = append(all, m)
		}
	}
	return all
}
