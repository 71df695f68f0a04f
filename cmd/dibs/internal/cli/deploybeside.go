package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/crontab"
)

// systemTable is where cronix writes, whatever file dibs writes; a test names another.
var systemTable = "/etc/crontab"

// beside warns of foreign entries that start the same jobs as those of an apply, so that both would run: of cronix for
// the same job, and any that adopt could take over.
func (o *deployOptions) beside(ctx context.Context, p *deploy.Plan, r deploy.Install) (warnings []string) {
	fresh := false
	for _, s := range p.Steps {
		fresh = fresh || s.Action == deploy.Create
	}
	warnings = rivals(p.Target, r.Entries, p.Match)
	for _, t := range o.wider(p.Target, fresh, r.App) {
		if image, err := t.Read(ctx); err == nil { // one that cannot be read is no obstacle to an apply
			warnings = append(warnings, rivals(t.String(), r.Entries, image.Match)...)
		}
	}
	return warnings
}

// wider are the places beside a target where entries for the same jobs may be. To ask AWS costs time, and needs rights
// that an apply does not: so that is done for new entries only.
func (o *deployOptions) wider(target string, fresh bool, app string) (all []deploy.Target) {
	kind, _, _ := strings.Cut(o.to, ":")
	switch {
	case kind == "crontab" && target != systemTable:
		if _, err := os.Stat(systemTable); err != nil {
			return nil
		}
		t, err := crontab.NewFile(systemTable, crontab.Options{Path: o.path})
		if err == nil {
			all = append(all, t)
		}
	case kind == "eventbridge" && fresh:
		wide := o.targetOptions
		wide.elsewhere = true
		if t, err := wide.open(app); err == nil {
			all = append(all, t.Target)
		}
	}
	return all
}

func rivals(where string, entries []deploy.Entry, match func(deploy.Entry) (deploy.Match, error)) (warnings []string) {
	for _, e := range entries {
		m, err := match(e)
		if err != nil {
			continue
		}
		found := slices.Clone(m.Also)
		if len(m.Refs) > 0 && !m.Guarded {
			found = append(found, m.Note)
		}
		if len(found) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s has another entry that starts this job (%s), so both start it: "+
				"take it over with dibs adopt before dibs apply, or delete it", e.ID, where, strings.Join(found, "; ")))
		}
	}
	return warnings
}
