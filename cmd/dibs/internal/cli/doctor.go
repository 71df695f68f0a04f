package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
)

// doctorOptions are the flags of `dibs doctor`.
type doctorOptions struct {
	store, source string
	verbose       bool
	out           format
	sourceOptions
}

const doctorHelp = `Check the store, this host's clock, directory and files, and a manifest if you name one, for settings that can do harm.
Each finding says what is wrong, where, and what to do. What is the same in several places is said once, and of a check
with very many findings the first ones are shown; -v shows all.

It runs no job, and prepares no store. It only reads, except that it acquires and releases one key of its own.

Exit status: 0 without an error, also with warnings; 1 if any finding is an error.

` + sourcesHelp

func newDoctor(e env) *cobra.Command {
	o := doctorOptions{}
	cmd := &cobra.Command{Use: "doctor [MANIFEST]", Short: "Find dangerous settings, each with its cure", Long: doctorHelp,
		Example: "  dibs doctor\n  dibs doctor -v\n  dibs doctor jobs.yaml --store redis://cache:6379/0\n  dibs doctor -o json",
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
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "show each finding by itself, and all of them")
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
		tellFindings(e, x.findings, o.verbose)
	}
	if errs > 0 {
		return statusError{exitFailed, nil}
	}
	return nil
}

// tellFindings prints blocks rather than a table: the sentences are long. Unless verbose, findings that say the same
// of several places are one block, and a check has mostBlocks of them; of the others it prints the places alone.
func tellFindings(e env, all []doctor.Finding, verbose bool) {
	if verbose {
		for _, f := range all {
			e.tellFinding(f, f.Where)
		}
	} else {
		for _, check := range doctor.Fold(all) {
			for i, same := range check {
				if rest := slices.Concat(check[i:]...); i == mostBlocks && len(check) > mostBlocks+1 {
					fmt.Fprintf(e.stdout, "%-7s  %s  and %d more: %s\n         dibs doctor -v shows them\n", rest[0].Severity, rest[0].Check, len(rest), printable(places(rest, false)))
					break
				}
				e.tellFinding(same[0], places(same, true))
			}
		}
	}
	fmt.Fprintf(e.stdout, "%s, %s, %s\n", plural(doctor.Count(all, doctor.Error), "error"),
		plural(doctor.Count(all, doctor.Warning), "warning"), plural(doctor.Count(all, doctor.Info), "note"))
}

// mostBlocks is how many blocks one check has.
const mostBlocks = 5

func (e env) tellFinding(f doctor.Finding, where string) {
	fmt.Fprintf(e.stdout, "%-7s  %s  %s\n         %s\n", f.Severity, f.Check, printable(where), printable(f.What))
	if f.Cure != "" {
		fmt.Fprintf(e.stdout, "         cure: %s\n", printable(f.Cure))
	}
}

// places lists where findings are, each place once and, if they are counted, how many there are. What the places have
// in common before a space, such as the manifest, is said once.
func places(all []doctor.Finding, counted bool) string {
	const most = 10
	common, _, _ := cutLast(all[0].Where, " ")
	var where []string
	for _, f := range all {
		if first, _, more := cutLast(f.Where, " "); first != common || !more {
			common = ""
		}
		if !slices.Contains(where, f.Where) {
			where = append(where, f.Where)
		}
	}
	if len(where) == 1 {
		return where[0]
	}
	said := ""
	if common != "" {
		said = common + ": "
	}
	if counted {
		said = strings.TrimPrefix(fmt.Sprintf("%s, %d places: ", common, len(where)), ", ")
	}
	more := ""
	if n := len(where) - most; n > 1 {
		where, more = where[:most], fmt.Sprintf(" and %d more", n)
	}
	for i, w := range where {
		where[i] = strings.TrimPrefix(w, common+" ")
	}
	return said + strings.Join(where, ", ") + more
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
