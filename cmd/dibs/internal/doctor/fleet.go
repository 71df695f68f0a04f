package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/tick"
)

// Fleet looks for apps that nobody serves any more, servers and workers that are gone, and hosts whose clock is off.
// jobs are those of the store.
func Fleet(where string, c fleet.Census, jobs []tick.Job) (all []Finding) {
	all = append(all, unserved(where, c, jobs)...)
	var gone, off []string
	for _, m := range c.Current() {
		at := fmt.Sprintf("%s:%d", m.Host, m.PID)
		switch {
		case m.State == fleet.Gone || m.State == fleet.Silent:
			gone = append(gone, at+" since "+stamp(m.Heard))
		case m.ClockOffset != nil && m.ClockOffset.Abs() > fleet.ClockBound:
			off = append(off, fmt.Sprintf("%s by %s", at, m.ClockOffset.Round(100*time.Millisecond)))
		}
	}
	if len(gone) > 0 {
		all = append(all, found(Warning, "server-gone", where, "Start it again, or look for what killed it; after a day it is forgotten. `dibs server list` shows all.",
			"%s died, or cannot reach the store, or %s stopped: %s.", counted(len(gone), "server or worker", "servers or workers"), isAre(len(gone)), some(gone)))
	}
	if len(off) > 0 {
		all = append(all, found(Warning, "fleet-clock", where, "Let chrony, systemd-timesyncd or the host of the virtual machine set the clock.",
			"%s off the store's: %s. Ticks and leases follow the store's clock, but logs do not, nor do the lines of that host's own crontab.",
			counted(len(off), "clock is", "clocks are"), some(off)))
	}
	return all
}

// unserved finds apps that a server served within the last day, and that none serves now.
func unserved(where string, c fleet.Census, jobs []tick.Job) (all []Finding) {
	count := map[string]int{}
	for _, j := range jobs {
		if app, _, ok := strings.Cut(j.Name, "/"); ok && j.Removed.IsZero() {
			count[app]++
		}
	}
	var apps []string
	for app := range count {
		apps = append(apps, app)
	}
	slices.Sort(apps)
	for _, app := range apps {
		s := c.Serving(app)
		if len(s.Up) > 0 || s.Last == nil {
			continue
		}
		const cure = "Start dibs serve (or the program) of this app on a server. If something else fires its jobs now (cron, systemd, Kubernetes), a day later this is over."
		how, severity := "was heard of at "+stamp(s.Last.Heard), Error
		switch s.Last.State {
		case fleet.Draining:
			how, severity = "is draining", Warning
		case fleet.Ended:
			how, severity = "ended at "+stamp(s.Last.Heard), Warning
		}
		all = append(all, found(severity, "app-unserved", where, cure, "Nobody serves %s, with %s: its last server, %s:%d, %s.", app,
			counted(count[app], "job", "jobs"), s.Last.Host, s.Last.PID, how))
	}
	return all
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
