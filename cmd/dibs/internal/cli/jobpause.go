package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// jobPauseOptions are the flags of `dibs job pause` and `dibs job resume`.
type jobPauseOptions struct {
	store, name, until, why string
	span                    time.Duration
	resume                  bool
	out                     format
}

const jobPauseHelp = `Pause a job, or a key of dibs run --once-per, on every server: no server claims its ticks until you resume it. They end
as paused, and nothing catches up on them. Running work goes on. dibs records the pause, who made it and why; pausing
again changes its end and its reason.`

func newJobPause(e env) *cobra.Command {
	o := jobPauseOptions{}
	cmd := &cobra.Command{Use: "pause NAME", Short: "Pause a job on every server", Long: jobPauseHelp,
		Example: "  dibs job pause shop/invoices --reason 'new tax rates, see T-123'\n  dibs job pause shop/invoices --for 2h --reason migration",
		Args:    exactly(1, "the name of one job or key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runJobPause(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().StringVar(&o.why, "reason", "", "the reason, for the record; required")
	cmd.Flags().StringVar(&o.until, "until", "", "the `INSTANT` at which the pause ends by itself (default: when the job is resumed)")
	cmd.Flags().Var(positive[time.Duration](&o.span), "for", "the same as a duration from now")
	return cmd
}

func newJobResume(e env) *cobra.Command {
	o := jobPauseOptions{resume: true}
	cmd := &cobra.Command{Use: "resume NAME", Short: "End the pause of a job",
		Long:    "End the pause of a job. Its ticks are due again from now on; those of the pause stay paused.",
		Example: "  dibs job resume shop/invoices",
		Args:    exactly(1, "the name of one job or key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runJobPause(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	return cmd
}

func runJobPause(ctx context.Context, e env, o jobPauseOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	if !o.resume && o.why == "" {
		return usage(errors.New("--reason is required: say why, for others who find the job paused"))
	}
	if o.until != "" && o.span != 0 {
		return usage(errors.New("--until and --for both set the end: give one of them"))
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	defer p.Book.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses by itself
	if !p.store.Ticked() {
		return fmt.Errorf("store %s has no jobs: %w", p.config, errors.ErrUnsupported)
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	req := tick.PauseRequest{Job: o.name, By: whoami(p.Self.Host), Why: o.why, Resume: o.resume}
	if req.Until, err = o.end(now); err != nil {
		return err
	}
	j, err := p.Pause(ctx, req)
	if errors.Is(err, scheduler.ErrUnknownJob) {
		return fmt.Errorf("%w; `dibs job list` shows those that are%s", err, p.meant(ctx, o.name))
	}
	if err != nil {
		return err
	}
	words := fmt.Sprintf("%s is paused until %s", o.name, stampOf(j.Pause.Until))
	switch {
	case o.resume && j.Pause.Until.Before(now):
		words = o.name + " was not paused"
	case o.resume:
		words = o.name + " is resumed"
	case j.Pause.Until.IsZero():
		words = fmt.Sprintf("%s is paused until you resume it: dibs job resume %s", o.name, o.name)
	}
	if now, err = p.Keeper.Now(ctx); err != nil { // after the step that it tells of
		return err
	}
	views, err := describeJobs(ctx, p, []tick.Job{j}, now)
	if err != nil {
		return err
	}
	return e.answer(o.out, views[0], words)
}

// end is when the pause ends by itself; zero: never.
func (o jobPauseOptions) end(now time.Time) (time.Time, error) {
	var until time.Time
	switch {
	case o.span > 0:
		until = now.Add(o.span).Truncate(time.Microsecond)
	case o.until != "":
		var err error
		if until, err = parseTime("--until", o.until); err != nil {
			if _, span := time.ParseDuration(o.until); span == nil {
				err = usage(fmt.Errorf("--until %s is no instant; for a duration write --for %s", o.until, o.until))
			}
			return until, err
		}
		if !until.After(now) {
			return until, usage(fmt.Errorf("--until %s: it is past; the store's time is %s", stampOf(until), stampOf(now)))
		}
	}
	return until, nil
}
