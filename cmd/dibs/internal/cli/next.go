package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
)

// nextOptions are the flags of `dibs next`.
type nextOptions struct {
	zone, dst, job, after string
	n                     int
	out                   format
	source                string
	sourceOptions
}

func newNext(e env) *cobra.Command {
	o := nextOptions{}
	cmd := &cobra.Command{Use: "next EXPR|MANIFEST", Short: "Show when an expression, or a manifest's jobs, are due next",
		Long: "Show the next instants of an expression, or of each job of a manifest. No job runs and no store is opened.\n\n" + sourcesHelp,
		Example: `  dibs next '15 4 1 * *' --tz Europe/Berlin -n 3
  dibs next '@every 90s' -o json
  dibs next '30 2 * * *' --tz America/New_York --dst skip
  dibs next 'H H(0-5) * * *' --job shop/invoices
  dibs next jobs.yaml --after 2026-12-24T00:00:00Z`,
		Args: exactly(1, "one expression, in quotes, or one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return runNext(cmd.Context(), e, o)
		}}
	formatFlag(cmd, &o.out)
	o.sourceOptions.flags(cmd)
	cmd.Flags().StringVar(&o.zone, "tz", "UTC", "the zone of an expression")
	cmd.Flags().StringVar(&o.dst, "dst", "vixie", "fixed times of an expression when clocks change: vixie (once), skip (skipped times\nare not due) or repeat (as often as the clock shows them)")
	cmd.Flags().StringVar(&o.job, "job", "", "the name that H in an expression uses: APP/JOB, or the key of dibs run")
	cmd.Flags().StringVar(&o.after, "after", "", "show instants after this one (default now)")
	cmd.Flags().IntVarP(&o.n, "count", "n", 5, "how many, 1 to 1000")
	return cmd
}

// upcoming is one expression's or job's answer; its form is stable.
type upcoming struct {
	Job         string      `json:"job,omitempty"`
	Expression  string      `json:"expression,omitempty"`
	Zone        string      `json:"zone"`
	DST         job.DST     `json:"dst,omitempty"` // if it is not the default
	Description string      `json:"description"`
	Next        []time.Time `json:"next"`

	zone *time.Location
}

func runNext(ctx context.Context, e env, o nextOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	if o.n < 1 || o.n > 1000 {
		return usage(fmt.Errorf("-n, --count %d: want 1 to 1000", o.n))
	}
	after := time.Now()
	if o.after != "" {
		var err error
		if after, err = parseTime("--after", o.after); err != nil {
			return err
		}
	}
	if _, err := os.Stat(o.source); err == nil || o.source == "-" || source.IsAddress(o.source) {
		return nextOfManifest(ctx, e, o, after)
	}
	return nextOfExpression(e, o, after)
}

func nextOfExpression(e env, o nextOptions, after time.Time) error {
	zone, err := schedule.LoadZone(o.zone)
	if err != nil {
		return usage(fmt.Errorf("--tz: %w", err))
	}
	dst, err := job.ParseDST(o.dst)
	if err != nil {
		return usage(fmt.Errorf("--dst %w", err))
	}
	s, err := schedule.Options{Zone: zone, Name: o.job, DST: schedule.DST(dst)}.Parse(o.source)
	if err != nil {
		return usage(err)
	}
	u := upcoming{Expression: o.source, Zone: s.Zone().String(), DST: unlessVixie(dst), zone: s.Zone(), Description: s.Description(), Next: instants(s.Next, after, o.n)}
	if len(u.Next) == 0 {
		return usage(fmt.Errorf("schedule %q: it never fires after %s: want one that is still due", o.source, after.UTC().Format(time.RFC3339)))
	}
	if o.out == "json" {
		return writeJSON(e.stdout, u)
	}
	u.print(e)
	return nil
}

func nextOfManifest(ctx context.Context, e env, o nextOptions, after time.Time) error {
	from, err := o.open(e, o.source)
	if err != nil {
		return err
	}
	m, err := from.Load(ctx)
	if err != nil {
		return usage(err)
	}
	all := []upcoming{}
	for i := range m.Jobs {
		spec := &m.Jobs[i]
		set, err := scheduler.SetOf(spec)
		if err != nil {
			return usage(err)
		}
		zone, err := schedule.LoadZone(spec.Timezone)
		if err != nil {
			return usage(err)
		}
		u := upcoming{Job: spec.Key(), Zone: spec.Timezone, DST: unlessVixie(spec.DST), zone: zone, Next: instants(set.Next, after, o.n)}
		for i, s := range set.Schedules() {
			if i > 0 {
				u.Description += "; and "
			}
			u.Description += s.Description()
		}
		all = append(all, u)
	}
	if o.out == "json" {
		return writeJSON(e.stdout, all)
	}
	for _, u := range all {
		u.print(e)
	}
	return nil
}

func (u upcoming) print(e env) {
	name := u.Job
	if name == "" {
		name = u.Expression
	}
	zone := u.Zone
	if u.DST != "" {
		zone += ", dst " + string(u.DST)
	}
	fmt.Fprintf(e.stdout, "%s  (%s, %s)\n", name, u.Description, zone)
	for _, t := range u.Next {
		fmt.Fprintln(e.stdout, "  "+stampIn(t, u.zone))
	}
}

// unlessVixie leaves the default out.
func unlessVixie(d job.DST) job.DST {
	if d == job.DSTVixie {
		return ""
	}
	return d
}

func instants(next func(time.Time) (time.Time, bool), after time.Time, n int) []time.Time {
	out := []time.Time{}
	for range n {
		t, ok := next(after)
		if !ok {
			break
		}
		out = append(out, t)
		after = t
	}
	return out
}
