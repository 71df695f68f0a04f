package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/tick"
)

// Fleet finds apps that nobody serves any more, servers and workers that are gone, and hosts whose clock is off. jobs
// are those of the store.
func Fleet(c fleet.Census, jobs []tick.Job) (all []Problem) {
	all = append(all, unserved(c, jobs)...)
	var gone, off []string
	var since time.Time
	for _, m := range c.Current() {
		at := fmt.Sprintf("%s:%d", m.Host, m.PID)
		switch {
		case m.State == fleet.Gone || m.State == fleet.Silent:
			if gone = append(gone, at+" since "+stamp(m.Heard)); m.Heard.After(since) {
				since = m.Heard
			}
		case m.ClockOffset != nil && m.ClockOffset.Abs() > fleet.ClockBound:
			off = append(off, fmt.Sprintf("%s by %s", at, m.ClockOffset.Round(100*time.Millisecond)))
		}
	}
	if n := len(gone); n > 0 {
		one, are := "1 server or worker", "is"
		if n > 1 {
			one, are = fmt.Sprintf("%d servers or workers", n), "are"
		}
		all = append(all, Problem{Severity: Warning, Kind: Gone, Count: n, Since: since,
			What: fmt.Sprintf("%s died, or cannot reach the store, or %s stopped: %s", one, are, some(gone)),
			Cure: "Start it again, or look for what killed it; after a day it is forgotten. `dibs server list` shows all."})
	}
	if n := len(off); n > 0 {
		one := "1 clock is"
		if n > 1 {
			one = fmt.Sprintf("%d clocks are", n)
		}
		all = append(all, Problem{Severity: Warning, Kind: Clock, Count: n,
			What: fmt.Sprintf("%s off the store's: %s; ticks and leases follow the store's clock, but logs do not, nor do the lines of that host's own crontab", one, some(off)),
			Cure: "Let chrony, systemd-timesyncd or the host of the virtual machine set the clock."})
	}
	return all
}

// unserved finds apps that a server served within the last day, and that none serves now.
func unserved(c fleet.Census, jobs []tick.Job) (all []Problem) {
	count := map[string]int{}
	for _, j := range jobs {
		if app := tick.AppOf(j.Name); app != "" && j.Removed.IsZero() {
			count[app]++
		}
	}
	for app, n := range count {
		s := c.Serving(app)
		if len(s.Up) > 0 || s.Last == nil {
			continue
		}
		severity, how := Critical, "was heard of last at "+stamp(s.Last.Heard)
		switch s.Last.State {
		case fleet.Draining:
			severity, how = Warning, "is draining"
		case fleet.Ended:
			severity, how = Warning, "ended at "+stamp(s.Last.Heard)
		}
		all = append(all, Problem{Severity: severity, Kind: Unserved, Subject: app, Since: s.Last.Heard, Count: n,
			What: fmt.Sprintf("nobody serves %s, with %s: its last server, %s:%d, %s", app, counted(n, "job"), s.Last.Host, s.Last.PID, how),
			Cure: "Start dibs serve (or the program) of this app on a server. If something else fires its jobs now (cron, systemd, Kubernetes), a day later this is over."})
	}
	slices.SortFunc(all, func(a, b Problem) int { return strings.Compare(a.Subject, b.Subject) })
	return all
}

// backFor is how long it is said that servers were away.
const backFor = time.Hour

// back finds those who lost their leases within the last hour, and have new ones: the store was away or forgot
// everything, if these are all; or they were cut off, or stopped.
func back(c fleet.Census) []Problem {
	var names []string
	var until time.Time
	alive := 0
	for _, m := range c.Members {
		if !m.Alive() {
			continue
		}
		if alive++; !m.Regained.IsZero() && c.Now.Sub(m.Regained) < backFor {
			if names = append(names, fmt.Sprintf("%s:%d", m.Host, m.PID)); m.Regained.After(until) {
				until = m.Regained
			}
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case len(names) == alive && alive > 1:
		return []Problem{{Severity: Note, Kind: StoreBack, Since: until, Count: alive,
			What: fmt.Sprintf("the store was away, or forgot everything, until %s: all %d servers and workers have new leases", stamp(until), alive)}}
	}
	were := "were"
	if len(names) == 1 {
		were = "was"
	}
	return []Problem{{Severity: Note, Kind: StoreBack, Since: until, Count: len(names),
		What: fmt.Sprintf("%s %s cut off from the store, or stopped, until %s", some(names), were, stamp(until))}}
}
