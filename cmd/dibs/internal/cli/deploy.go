package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
)

// The exit statuses of these commands that are their own.
const (
	exitChanges = 2 // dibs plan: there is something to change
	exitDrift   = 5 // dibs drift, and an apply that left something as somebody edited it
)

// deployOptions are the flags of the commands that compare a manifest with what is installed.
type deployOptions struct {
	entryOptions
	out       format
	overwrite bool
	dryRun    bool
	hash      string
	watch     time.Duration
}

const planHelp = `Show what dibs apply would do: the entries that a target has for a manifest's jobs, the entries that it should
have, and a diff. It writes nothing.

An entry calls dibs trigger, which reads the manifest, decides whether the job is due, and makes sure that one
server of the fleet runs each tick. An entry has a mark with its identity, APP/JOB#SCHEDULE, and hashes, so dibs
can tell an edit by hand from a changed job.

In Kubernetes an entry is a CronJob; its pods run dibs trigger in --image. The CronJob contains the job's
manifest, but no secret: the store's address and the secrets are in a Secret (--pod-secret).

` + targetsHelp + `

Cron and Kubernetes cannot express every schedule: the last Friday, every 36 hours, in cron other time zones than the
host's. systemd and EventBridge can express most. An entry that is not exact starts more often, and dibs trigger runs
only the ticks. Only systemd has seconds.

Exit status: 0 nothing to change, 2 something to change, 1 for errors.`

func newPlan(e env) *cobra.Command {
	o := deployOptions{}
	cmd := &cobra.Command{Use: "plan MANIFEST --to TARGET", Short: "Show what apply would change", Long: planHelp,
		Example: "  dibs plan jobs.yaml --to crontab\n  dibs plan /etc/dibs/jobs.d --to crontab:www-data -o json",
		Args:    exactly(1, "one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.render != "" {
				return o.printDocument(cmd.Context(), e, args[0])
			}
			plans, w, err := o.prepare(cmd.Context(), e, args[0])
			if err == nil {
				err = o.print(e, plans, w, "to")
			}
			if err == nil {
				err = o.check(cmd.Context(), plans)
			}
			if err == nil && changes(plans) {
				err = statusError{exitChanges, nil}
			}
			return err
		}}
	o.flags(cmd)
	o.renderFlag(cmd)
	return cmd
}

const applyHelp = `Install the jobs of a manifest in a target: create and update entries, and change nothing else. Entries that are
no longer in the manifest stay until dibs prune. A second apply writes nothing. Writes are atomic, and one apply
waits for another.

If an entry was edited by hand, apply keeps it and exits with status 5; --overwrite replaces it.

` + targetsHelp + `

Exit status: 0 installed, 5 installed except entries that were edited by hand, 1 for errors.`

func newApply(e env) *cobra.Command {
	o := deployOptions{}
	cmd := &cobra.Command{Use: "apply MANIFEST --to TARGET", Short: "Install the jobs of a manifest", Long: applyHelp,
		Example: `  dibs apply jobs.yaml --to crontab
  dibs apply jobs.yaml --to crontab --plan 5f2c9a01        only the plan that dibs plan printed
  dibs apply jobs.yaml --to crontab --formerly oldname     the app was renamed
  dibs apply jobs.yaml --to kubernetes/shop --image registry.example/shop:42 --default-scope global
  dibs apply jobs.yaml --to kubernetes/shop --image registry.example/shop:42 --render yaml > cronjobs.yaml
  dibs apply jobs.yaml --to eventbridge:ecs.yaml --render terraform > jobs.tf.json`,
		Args: exactly(1, "one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.render != "" {
				return o.printDocument(cmd.Context(), e, args[0])
			}
			return o.apply(cmd.Context(), e, args[0])
		}}
	o.flags(cmd)
	o.renderFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.hash, "plan", "", "apply only if the plan still has this `HASH`, which dibs plan prints")
	o.writeFlags(cmd)
	return cmd
}

func (o *deployOptions) flags(cmd *cobra.Command) {
	o.entryOptions.flags(cmd)
	formatFlag(cmd, &o.out)
}

func (o *deployOptions) writeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.overwrite, "overwrite", false, "also replace entries that were edited by hand")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be written, and write nothing")
}

// A planned is a request and its plan.
type planned struct {
	target  target
	request deploy.Request
	plan    *deploy.Plan
}

// prepare plans an apply. Where the app had another name, and with it another file, what is there goes as well.
func (o *deployOptions) prepare(ctx context.Context, e env, name string) (all []planned, w wanted, err error) {
	if err := o.out.check(); err != nil {
		return nil, w, err
	}
	if w, err = o.entries(ctx, e, name); err != nil {
		return nil, w, err
	}
	add := func(t target, r deploy.Request) {
		if err == nil {
			var p *deploy.Plan
			if p, err = deploy.Prepare(ctx, t, r); err == nil {
				o.missingSpecs(w, p)
				if install, ok := r.(deploy.Install); ok {
					w.warnings = append(w.warnings, o.beside(ctx, p, install)...)
				}
			}
			all = append(all, planned{t, r, p})
		}
	}
	add(w.target, deploy.Install{App: w.app, Formerly: o.formerly, Entries: w.entries, Overwrite: o.overwrite})
	for _, old := range o.formerly {
		t, openErr := o.targetOptions.open(old)
		if err = errors.Join(err, openErr); err == nil && t.String() != w.target.String() {
			add(t, deploy.Prune{App: old, Overwrite: o.overwrite})
		}
	}
	return all, w, err
}

func changes(all []planned) bool {
	return slices.ContainsFunc(all, func(p planned) bool { return p.plan.Changes() })
}

// hashOf is the hash of plans as one.
func hashOf(all []planned) string {
	if len(all) == 1 {
		return all[0].plan.Hash
	}
	h := sha256.New()
	for _, p := range all {
		h.Write([]byte(p.plan.Hash))
	}
	return hex.EncodeToString(h.Sum(nil))[:len(all[0].plan.Hash)]
}

// check has targets that can do so say now what they would refuse.
func (o *deployOptions) check(ctx context.Context, all []planned) error {
	for _, p := range all {
		if err := p.plan.Check(ctx, p.target); err != nil {
			return err
		}
	}
	return nil
}

func (o *deployOptions) apply(ctx context.Context, e env, name string) error {
	all, w, err := o.prepare(ctx, e, name)
	if err != nil {
		return err
	}
	if o.hash != "" && o.hash != hashOf(all) {
		return fmt.Errorf("--plan %s: the plan has changed to %s: review it with dibs plan", o.hash, hashOf(all))
	}
	if err := o.carryOut(ctx, e, w, all); err != nil {
		return err
	}
	if err := o.print(e, all, w, "did"); err != nil {
		return err
	}
	if has(all, deploy.Edited) {
		return statusError{exitDrift, nil}
	}
	return nil
}

// carryOut applies plans, each only as it was shown.
func (o *deployOptions) carryOut(ctx context.Context, e env, w wanted, all []planned) error {
	if o.dryRun {
		return nil
	}
	if err := o.leaveSpecs(w, all); err != nil {
		return err
	}
	for i, p := range all {
		done, err := deploy.Apply(ctx, p.target, p.request, p.plan.Hash)
		if err != nil {
			return err
		}
		all[i].plan = done
	}
	return o.afterwards(ctx, e, w, all)
}

func has(all []planned, a deploy.Action) bool {
	return slices.ContainsFunc(all, func(p planned) bool {
		return slices.ContainsFunc(p.plan.Steps, func(s deploy.Step) bool { return s.Action == a })
	})
}

// planRecord is what these commands print with -o json; its form is stable.
type planRecord struct {
	// Changes says whether there was anything to write.
	Changes bool `json:"changes"`
	// Written says whether it was written.
	Written bool           `json:"written"`
	Hash    string         `json:"hash"`
	Targets []targetRecord `json:"targets"`
	Notes   []string       `json:"notes"`
}

type targetRecord struct {
	*deploy.Plan
	Clean    bool     `json:"clean"`
	Problems []string `json:"problems"`
}

// print shows plans: what is to be done, or was done.
func (o *deployOptions) print(e env, all []planned, w wanted, tense string) error {
	if o.out == "json" {
		r := planRecord{Changes: changes(all), Written: tense == "did" && !o.dryRun && changes(all), Hash: hashOf(all), Notes: append(append([]string{}, w.warnings...), w.notes...)}
		for _, p := range all {
			t := targetRecord{Plan: p.plan, Clean: p.plan.Clean(), Problems: []string{}}
			for _, x := range p.plan.Problems {
				t.Problems = append(t.Problems, fmt.Sprintf("%s: %s", x.ID, x.Text))
			}
			r.Targets = append(r.Targets, t)
		}
		return writeJSON(e.stdout, r)
	}
	for _, p := range all {
		if err := o.printOne(e, p.plan, tense); err != nil {
			return err
		}
	}
	for _, text := range w.warnings {
		fmt.Fprintf(e.stdout, "warning: %s\n", text)
	}
	if changes(all) { // else they were shown when it was installed
		for _, n := range w.notes {
			fmt.Fprintf(e.stdout, "note: %s\n", n)
		}
	}
	if tense == "to" && changes(all) {
		fmt.Fprintf(e.stdout, "plan %s\n", hashOf(all))
	}
	return nil
}

func (o *deployOptions) printOne(e env, p *deploy.Plan, tense string) error {
	var rows [][]string
	counts := map[deploy.Action]int{}
	for _, s := range p.Steps {
		counts[s.Action]++
		if s.Action != deploy.Unchanged {
			rows = append(rows, []string{string(s.Action), s.Entry, orDash(s.Reason)})
		}
	}
	if len(rows) > 0 {
		if err := e.table("ACTION ENTRY REASON", rows); err != nil {
			return err
		}
	}
	if p.Diff != "" {
		fmt.Fprint(e.stdout, p.Diff)
	}
	for _, x := range p.Problems {
		fmt.Fprintf(e.stdout, "problem: %s: %s\n", x.ID, x.Text)
	}
	fmt.Fprintf(e.stdout, "%s: %s\n", p.Target, summary(p, counts, tense == "did" && !o.dryRun))
	return nil
}

// summary counts what is to be done, or was.
func summary(p *deploy.Plan, counts map[deploy.Action]int, done bool) string {
	var parts []string
	for _, w := range []struct {
		action    deploy.Action
		was, will string
	}{
		{deploy.Create, "created", "to create"}, {deploy.Update, "updated", "to update"}, {deploy.Rerender, "written anew", "to write anew"},
		{deploy.Delete, "deleted", "to delete"}, {deploy.Adopted, "adopted", "to adopt"}, {deploy.Ejected, "ejected", "to eject"},
		{deploy.Unchanged, "unchanged", "unchanged"}, {deploy.Edited, "edited by hand, and kept", "edited by hand, and kept"},
		{deploy.Stale, "stale (dibs prune deletes them)", "stale (dibs prune deletes them)"},
		{deploy.Unmatched, "found nowhere", "found nowhere"},
	} {
		if n := counts[w.action]; n > 0 {
			word := w.will
			if done {
				word = w.was
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if n := len(p.Foreign); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of others", n))
	}
	text := strings.Join(parts, ", ")
	switch {
	case text == "":
		return "no entries"
	case !p.Changes():
		return "nothing to do: " + text
	}
	return text
}

const driftHelp = `Compare the entries in a target with a manifest, and list the differences: entries that are missing, stale, out of
date or edited by hand, and other lines that change the effect of an entry. It writes nothing.

With --watch it runs until a signal, and prints a line at each change.

` + targetsHelp + `

Exit status: 0 in sync, 5 not in sync, 1 for errors.`

func newDrift(e env) *cobra.Command {
	o := deployOptions{}
	cmd := &cobra.Command{Use: "drift MANIFEST --to TARGET", Short: "Check whether what is installed matches the manifest", Long: driftHelp,
		Example: "  dibs drift jobs.yaml --to crontab || echo 'not in sync'\n  dibs drift jobs.yaml --to crontab --watch 1m",
		Args:    exactly(1, "one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.watch != 0 {
				return o.watchDrift(cmd.Context(), e, args[0])
			}
			return o.drift(cmd.Context(), e, args[0])
		}}
	o.flags(cmd)
	cmd.Flags().Var(positive[time.Duration](&o.watch), "watch", "check again at this interval, at least 1s, until a signal")
	return cmd
}

func (o *deployOptions) drift(ctx context.Context, e env, name string) error {
	all, w, err := o.prepare(ctx, e, name)
	if err == nil {
		err = o.print(e, all, w, "to")
	}
	if err == nil && !inSync(all) {
		err = statusError{exitDrift, nil}
	}
	return err
}

func inSync(all []planned) bool {
	return !slices.ContainsFunc(all, func(p planned) bool { return !p.plan.Clean() })
}

// watchDrift says each change between in sync and not, and what is out of sync.
func (o *deployOptions) watchDrift(ctx context.Context, e env, name string) error {
	if o.watch < time.Second {
		return usage(fmt.Errorf("--watch %s: want at least 1s", o.watch))
	}
	said, last := "", error(nil)
	for {
		all, _, err := o.prepare(ctx, e, name)
		state := "in sync"
		last = nil
		switch {
		case err != nil:
			state, last = "not known: "+err.Error(), statusError{exitFailed, nil}
		case !inSync(all):
			state, last = "not in sync: "+differing(all), statusError{exitDrift, nil}
		}
		if state != said {
			said = state
			fmt.Fprintf(e.stdout, "%s %s\n", time.Now().UTC().Format(time.RFC3339), state)
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(o.watch):
		}
	}
}

func differing(all []planned) string {
	var parts []string
	for _, p := range all {
		for _, s := range p.plan.Steps {
			if s.Action != deploy.Unchanged {
				parts = append(parts, fmt.Sprintf("%s (%s)", s.Entry, s.Action))
			}
		}
		for _, x := range p.plan.Problems {
			parts = append(parts, fmt.Sprintf("%s (%s)", x.ID, x.Text))
		}
	}
	return strings.Join(parts, ", ")
}
