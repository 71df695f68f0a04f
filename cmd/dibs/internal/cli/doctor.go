package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
)

// doctorOptions are the flags of `dibs doctor`.
type doctorOptions struct {
	store, source string
	out           format
	sourceOptions
}

const doctorHelp = `Check the store, this host's clock, directory and files, and a manifest if you name one, for settings that can do harm.
Each finding says what is wrong, where, and what to do.

It runs no job, and prepares no store. It only reads, except that it acquires and releases one key of its own.

Exit status: 0 without an error, also with warnings; 1 if any finding is an error.

` + sourcesHelp

func newDoctor(e env) *cobra.Command {
	o := doctorOptions{}
	cmd := &cobra.Command{Use: "doctor [MANIFEST]", Short: "Find dangerous settings, each with its cure", Long: doctorHelp,
		Example: "  dibs doctor\n  dibs doctor jobs.yaml --store redis://cache:6379/0\n  dibs doctor -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("want at most one manifest, not %d", len(args)))
			}
			if len(args) > 0 {
				o.source = args[0]
			}
			return runDoctor(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	o.sourceOptions.flags(cmd)
	return cmd
}

// diagnosis is what `dibs doctor -o json` prints; its form is stable.
type diagnosis struct {
	Healthy  bool             `json:"healthy"`
	Findings []doctor.Finding `json:"findings"`
}

func runDoctor(ctx context.Context, e env, o doctorOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	x := examination{doctorOptions: o, env: e}
	x.examine(ctx)
	doctor.Sort(x.findings)
	errs := doctor.Count(x.findings, doctor.Error)
	if o.out == "json" {
		if err := writeJSON(e.stdout, diagnosis{errs == 0, append([]doctor.Finding{}, x.findings...)}); err != nil {
			return err
		}
	} else {
		tellFindings(e, x.findings)
	}
	if errs > 0 {
		return statusError{exitFailed, nil}
	}
	return nil
}

// tellFindings prints blocks rather than a table: the sentences are long.
func tellFindings(e env, all []doctor.Finding) {
	for _, f := range all {
		fmt.Fprintf(e.stdout, "%-7s  %s  %s\n         %s\n", f.Severity, f.Check, printable(f.Where), printable(f.What))
		if f.Cure != "" {
			fmt.Fprintf(e.stdout, "         cure: %s\n", printable(f.Cure))
		}
	}
	fmt.Fprintf(e.stdout, "%s, %s, %s\n", plural(doctor.Count(all, doctor.Error), "error"),
		plural(doctor.Count(all, doctor.Warning), "warning"), plural(doctor.Count(all, doctor.Info), "note"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
