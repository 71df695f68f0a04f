package crontab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/schedule"
)

// matchPlain finds the lines that do what a job does without dibs. What a line does is what Import makes of it, so a
// manifest that was imported matches the crontab that it comes from.
func (m *image) matchPlain(want deploy.Plain) (found deploy.Match) {
	missing := slices.Clone(want.When)
	for _, c := range m.candidates() {
		is, when, why := m.plain(c, want)
		if why == "" {
			why = differPlain(is, want)
		}
		at := slices.Index(missing, when)
		switch {
		case !sameWork(is, want): // another job
		case why != "":
			found.Near = append(found.Near, fmt.Sprintf("line %d does the same work with %s", c.n, why))
		case at < 0:
			found.Near = append(found.Near, fmt.Sprintf("line %d does the same work at other times", c.n))
		default:
			found.Refs = append(found.Refs, c.n)
			missing = slices.Delete(missing, at, at+1)
		}
	}
	if len(missing) > 0 {
		found.Refs = nil
		return found
	}
	found.Note = places(found.Refs) + ", which does what the job does"
	return found
}

// plain is what a line does, and its schedule as Translate would write it in a job's zone. Variables that cron sets by
// itself do not count if the job has none of that name.
func (m *image) plain(c candidate, want deploy.Plain) (is importedJob, when, why string) {
	zone := want.Zone
	im, err := newImporter(ImportOptions{App: "app", Zone: zone, System: m.system, Login: m.user})
	if err != nil {
		return is, "", err.Error()
	}
	if reason := im.entry(c.l, c.env); reason != "" {
		return is, "", reason
	}
	is = im.jobs[0]
	if !m.system && want.User == m.user {
		is.User = m.user // a job may state what the table says by itself
	}
	for _, name := range []string{"SHELL", "HOME", "LOGNAME"} {
		_, set := c.env[name]
		if _, wanted := want.Env[name]; !set && !wanted {
			delete(is.Env, name)
		}
	}
	switch {
	case is.Zone != "" && !m.Zones:
		return is, "", "CRON_TZ, which not every cron reads"
	case is.Policy != nil:
		return is, "", "RANDOM_DELAY, which not every cron reads"
	}
	z, err := schedule.LoadZone(zone)
	if err != nil {
		return is, "", err.Error()
	}
	if is.Zone != "" && is.Zone != zone {
		return is, "", "times of another zone"
	}
	return is, linesOf(is.Schedule, z), ""
}

// linesOf is a line's schedule as Translate writes it; empty if it cannot.
func linesOf(when string, zone *time.Location) string {
	s, err := schedule.Parse(when, zone)
	if err != nil {
		return ""
	}
	t, err := Translate(s, zone)
	if err != nil || t.More || len(t.Lines) != 1 {
		return ""
	}
	return t.Lines[0]
}

func sameWork(is importedJob, want deploy.Plain) bool {
	switch c := is.Command.(type) {
	case map[string]string:
		return len(want.Args) == 0 && c["shell"] == want.Shell
	case []string:
		return slices.Equal(c, want.Args)
	}
	return false
}

// differPlain says how a line and a job differ, beside their times and what they call. It names variables, and no
// values.
func differPlain(is importedJob, want deploy.Plain) string {
	switch {
	case is.User != want.User:
		return "another user"
	case is.Dir != want.Dir:
		return "another directory"
	}
	names := maps.Clone(is.Env)
	maps.Copy(names, want.Env)
	var other []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, there := is.Env[name]
		will, here := want.Env[name]
		if was != will || there != here {
			other = append(other, name)
		}
	}
	if len(other) > 0 {
		return "other values of " + strings.Join(other, ", ")
	}
	return ""
}
