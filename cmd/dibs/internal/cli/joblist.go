package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// jobListOptions are the flags of `dibs job list` and `dibs job show`.
type jobListOptions struct {
	store, name string
	out         format
	all, one    bool
}

func newJobList(e env) *cobra.Command {
	o := jobListOptions{}
	cmd := &cobra.Command{Use: "list [PREFIX]", Short: "List scheduled jobs",
		Long:    "List the scheduled jobs that are registered in a store: those of manifests and Go programs, and the keys of\ndibs run --once-per with a cron expression.",
		Example: "  dibs job list\n  dibs job list shop/ -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%w: want one prefix at most", errUsage)
			}
			o.name = strings.Join(args, "")
			return runJobList(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "include removed jobs")
	return cmd
}

func newJobShow(e env) *cobra.Command {
	o := jobListOptions{one: true, all: true}
	cmd := &cobra.Command{Use: "show NAME", Short: "Show one registered job",
		Example: "  dibs job show shop/invoices",
		Args:    exactly(1, "the name of one job or key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runJobList(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	return cmd
}

// jobRecord is a registered job as it is shown; its JSON form is stable.
type jobRecord struct {
	Job        string      `json:"job"`
	State      string      `json:"state"` // active, paused, removed
	Schedules  []string    `json:"schedules"`
	Timezone   string      `json:"timezone"`
	Work       string      `json:"work,omitempty"` // "function": a Go function of the program that registered it
	Generation int64       `json:"generation"`
	Source     string      `json:"source,omitempty"` // the application that registered it without --app
	Since      time.Time   `json:"since,omitzero"`
	Settled    time.Time   `json:"settled_until,omitzero"`
	Ahead      float64     `json:"settled_ahead_seconds,omitempty"` // of the store's clock: nothing runs
	Next       time.Time   `json:"next,omitzero"`
	Last       *lastTick   `json:"last,omitempty"`
	Pause      *tick.Pause `json:"pause,omitempty"`
	Removed    time.Time   `json:"removed,omitzero"`
	// Unserved is when a server of its app was heard of last, if none is up.
	Unserved time.Time   `json:"unserved_since,omitzero"`
	Policy   *job.Policy `json:"-"`

	unserved string
	zone     *time.Location
	words    string
	ahead    string
}

type lastTick struct {
	Tick    time.Time `json:"tick"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	RunID   string    `json:"run_id,omitempty"`
}

func runJobList(ctx context.Context, e env, o jobListOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	if !p.store.Ticked() {
		return fmt.Errorf("store %s has no jobs: %w", p.config, errors.ErrUnsupported)
	}
	known, err := registry(ctx, p, o.name)
	if err != nil {
		return err
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	services := servicesOf(p.censusOrSay(ctx, e))
	known = slices.DeleteFunc(known, func(j tick.Job) bool { return o.one && j.Name != o.name || !o.all && !j.Removed.IsZero() })
	records, err := describeJobs(ctx, p, known, now)
	if err != nil {
		return err
	}
	for i, r := range records {
		if r.State != "removed" {
			records[i].unserved, records[i].Unserved = unserved(tick.AppOf(r.Job), services(tick.AppOf(r.Job)))
		}
	}
	switch {
	case o.one && len(records) == 0:
		return fmt.Errorf("%s: no job and no key of --once-per of that name is registered in %s%s", o.name, p.config, p.meant(ctx, o.name))
	case o.one && o.out == "json":
		return writeJSON(e.stdout, records[0])
	case o.out == "json":
		return writeJSON(e.stdout, records)
	case o.one:
		records[0].show(e)
		return nil
	}
	return listJobs(e, records)
}

// registry are the jobs of a store whose names begin with prefix.
func registry(ctx context.Context, p *opened, prefix string) ([]tick.Job, error) {
	known, err := tick.Registry(ctx, p.Ticks, prefix)
	if err != nil {
		return nil, fmt.Errorf("read the registered jobs: %w", err)
	}
	return mirror.Own(known), nil
}

// describeJobs describes jobs, in their order.
func describeJobs(ctx context.Context, p *opened, jobs []tick.Job, now time.Time) ([]jobRecord, error) {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name
	}
	last, err := explain.LatestTicks(ctx, p.History, names, 1)
	if err != nil {
		return nil, fmt.Errorf("read the last tick of each job: %w", err)
	}
	all := make([]jobRecord, len(jobs))
	for i, j := range jobs {
		if all[i], err = describeJob(j, last[i], now); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// describeJob adds to what is registered when the job is due and how its last tick ended, if there is one.
func describeJob(j tick.Job, last []tick.Tick, now time.Time) (jobRecord, error) {
	r := jobRecord{Job: j.Name, State: "active", Generation: j.Generation, Since: j.Since, Settled: j.Mark, Removed: j.Removed}
	r.Ahead, r.ahead = scheduler.Ahead(j, now).Seconds(), scheduler.AheadText(j, now)
	spec, set, err := scheduler.Registered(j)
	if err != nil {
		return r.unreadable(j, err), nil
	}
	r.Schedules, r.Timezone, r.Policy, r.words = spec.Schedules, spec.Timezone, &spec.Policy, set.Description()
	r.Source = spec.Source
	if spec.Function != nil {
		r.Work = "function"
	}
	if r.zone, err = schedule.LoadZone(spec.Timezone); err != nil {
		return r, err
	}
	from := now
	if j.Pause.Covers(now) {
		r.State, r.Pause, from = "paused", &j.Pause, j.Pause.Until.Add(-time.Microsecond)
	}
	if !j.Removed.IsZero() {
		r.State = "removed"
	} else if r.State == "active" || !j.Pause.Until.IsZero() {
		r.Next, _ = set.Next(from)
	}
	if len(last) > 0 {
		r.Last = &lastTick{Tick: last[0].At, Outcome: string(last[0].Outcome), Reason: last[0].Reason, RunID: last[0].RunID}
		if last[0].Outcome == "" {
			r.Last.Outcome = string(last[0].State)
		}
	}
	return r, nil
}

// unreadable is a job whose definition means nothing here: its zone is unknown on this host, say. The
// others are listed all the same.
func (r jobRecord) unreadable(j tick.Job, err error) jobRecord {
	r.State, r.Policy, r.zone = "unreadable", &job.Policy{}, time.UTC
	r.words = err.Error()
	if spec, perr := job.ParseDefinition(j.Definition); perr == nil {
		r.Schedules, r.Timezone, r.Policy = spec.Schedules, spec.Timezone, &spec.Policy
	}
	return r
}

func listJobs(e env, records []jobRecord) error {
	var rows [][]string
	for _, r := range records {
		state, last := r.State, "-"
		if r.Pause != nil {
			state += " by " + r.Pause.By
			if !r.Pause.Until.IsZero() {
				state += " until " + stampOf(r.Pause.Until)
			}
		}
		switch {
		case !r.Unserved.IsZero():
			state += ", unserved since " + stampOf(r.Unserved)
		case r.unserved != "":
			state += ", its server is draining"
		}
		if r.ahead != "" {
			state += ", settled ahead of the store's clock"
		}
		if r.Last != nil {
			last = stateWord(r.Last.Outcome) + " " + stampOf(r.Last.Tick)
		}
		if r.Work == "function" {
			state += ", Go function"
		}
		rows = append(rows, []string{r.Job, state, stampOf(r.Next), last, strings.Join(r.Schedules, " | "), r.Timezone})
	}
	return e.table("JOB STATE NEXT LAST SCHEDULE ZONE", rows, "ZONE")
}

// show prints one job, a fact a line.
func (r jobRecord) show(e env) {
	line := func(name, value string) { fmt.Fprintf(e.stdout, "%-11s %s\n", name, printable(value)) }
	line("job", r.Job)
	switch {
	case r.State == "removed":
		line("state", "removed at "+stampOf(r.Removed))
	case r.Pause != nil:
		line("state", scheduler.PauseText(*r.Pause))
	default:
		line("state", r.State)
	}
	line("schedule", fmt.Sprintf("%s (%s, %s)", strings.Join(r.Schedules, " | "), r.words, r.Timezone))
	line("next", stampIn(r.Next, r.zone))
	if r.Last != nil {
		line("last", stateWord(r.Last.Outcome)+", tick "+stampIn(r.Last.Tick, r.zone))
		if r.Last.Reason != "" {
			line("reason", r.Last.Reason)
		}
		if r.Last.RunID != "" {
			line("run", r.Last.RunID)
		}
	}
	if r.Work == "function" {
		line("work", "a Go function: only the program that registered the job can run it")
	}
	line("policy", fmt.Sprintf("%s, scope %s, catch-up %s, on crash %s", r.Policy.Concurrency, r.Policy.Scope, r.Policy.CatchUp, r.Policy.OnCrash))
	if r.Source != "" {
		line("source", r.Source+", which was not granted the app (--app)")
	}
	line("since", fmt.Sprintf("%s, generation %d", stampOf(r.Since), r.Generation))
	line("settled", "all ticks until "+stampOf(r.Settled))
	if r.unserved != "" {
		line("unserved", r.unserved)
	}
	if r.ahead != "" {
		line("ahead", "it is "+r.ahead)
	}
}
