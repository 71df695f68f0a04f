package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

func newJob(e env) *cobra.Command {
	return group(&cobra.Command{Use: "job", Short: "Scheduled jobs: list, show, pause, resume, trigger, backfill"},
		newJobList(e), newJobShow(e), newJobPause(e), newJobResume(e), newJobTrigger(e), newJobBackfill(e), newJobForget(e))
}

// jobForgetOptions are the flags of `dibs job forget`.
type jobForgetOptions struct {
	store, name string
	out         format
}

// forgottenView is what is said of a job that is not accounted for any more; its form is stable.
type forgottenView struct {
	Job string `json:"job"`
	Was string `json:"was"` // its schedule
}

func newJobForget(e env) *cobra.Command {
	o := jobForgetOptions{}
	cmd := &cobra.Command{Use: "forget NAME", Short: "Forget the schedule of a job, or of a key of --once-per",
		Long: `Remove the registered definition of a job, or of a key of dibs run --once-per. Its ticks are no longer expected, and the
next registration may have another schedule. Its history and its lease stay.

Use this when the expression of --once-per has changed on every server. Until then the store has the old expression and
refuses servers with another one, so that two crontabs can never disagree.`,
		Example: "  dibs job forget invoices",
		Args:    exactly(1, "the name of one job or key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runJobForget(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	return cmd
}

func runJobForget(ctx context.Context, e env, o jobForgetOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	known, err := p.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{o.name}})
	if err != nil {
		return fmt.Errorf("read the registered jobs: %w", err)
	}
	for _, j := range known {
		if !j.Removed.IsZero() {
			continue
		}
		removal, err := p.Conclude(ctx, j)
		if err != nil {
			return err
		}
		now, err := p.Ticks.SetJobs(ctx, []tick.JobRequest{removal})
		switch {
		case err != nil:
			return fmt.Errorf("forget %s: %w", o.name, err)
		case now[0].Removed.IsZero():
			return fmt.Errorf("%s is not forgotten, because its definition changed at the same time; try again", o.name)
		}
		ev := history.Event{Kind: "job-forgotten", Job: o.name,
			Reason: fmt.Sprintf("forgotten by %s; it was due at %s", whoami(p.Self.Host), scheduleOf(j))}
		if err := p.Tell(ctx, ev); err != nil {
			fmt.Fprintf(e.stderr, "dibs: %s is forgotten, but the event could not be recorded: %v\n", o.name, err)
		}
		return e.answer(o.out, forgottenView{o.name, scheduleOf(j)}, fmt.Sprintf("%s is forgotten; it was due at %s", o.name, scheduleOf(j)))
	}
	return fmt.Errorf("%s: no job and no key of --once-per of that name is registered in %s%s", o.name, p.config, p.meant(ctx, o.name))
}

// scheduleOf is a registered schedule in words.
func scheduleOf(j tick.Job) string {
	spec, err := job.ParseDefinition(j.Definition)
	if err != nil {
		return abridged(j.Definition, 400)
	}
	return scheduleIn(fmt.Sprintf("%q", spec.Schedules), spec)
}

// scheduleIn tells expressions apart that mean different ticks.
func scheduleIn(expr string, spec *job.Spec) string {
	text := expr + " in " + spec.Timezone
	if dst := unlessVixie(spec.DST); dst != "" {
		text += ", dst " + string(dst)
	}
	return text
}
