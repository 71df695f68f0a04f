package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/manifest/source"
)

// validateOptions are the flags of `dibs validate`.
type validateOptions struct {
	out       format
	canonical bool
	schema    bool
	source    string
	sourceOptions
}

func newValidate(e env) *cobra.Command {
	o := validateOptions{}
	cmd := &cobra.Command{Use: "validate MANIFEST", Short: "Check a manifest, and say which jobs every server will run",
		Long: "Check a manifest, JSON or YAML. It reports all errors at once, each with its path. Exit status: 0 valid, 2 not valid.\n\n" + sourcesHelp,
		Example: `  dibs validate jobs.yaml
  dibs validate jobs.yaml --canonical > jobs.json
  dibs validate https://shop.internal --app shop --secret env:CRON_SECRET --allow-host hc-ping.com
  dibs validate --schema > manifest.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.schema {
				return exactly(0, "no manifest with --schema")(cmd, args)
			}
			return exactly(1, "one manifest")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.schema {
				_, err := e.stdout.Write(manifest.Schema())
				return err
			}
			o.source = args[0]
			return runValidate(cmd.Context(), e, o)
		}}
	formatFlag(cmd, &o.out)
	o.sourceOptions.flags(cmd)
	cmd.Flags().BoolVar(&o.canonical, "canonical", false, "print the canonical form: JSON with every default written out, byte-exact")
	cmd.Flags().BoolVar(&o.schema, "schema", false, "print the JSON Schema of manifests, for editors")
	return cmd
}

// verdict is what `dibs validate -o json` prints; its form is stable.
type verdict struct {
	Valid  bool             `json:"valid"`
	Errors []manifest.Error `json:"errors"`
	// Granted is what an application may name in its manifest; nil for one of the operator's own.
	Granted *source.Grants `json:"granted,omitempty"`
}

func runValidate(ctx context.Context, e env, o validateOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	from, err := o.open(e, o.source)
	if err != nil {
		return err
	}
	m, err := from.Load(ctx)
	if o.canonical && err == nil {
		_, err := output.Verbatim(e.stdout).Write(m.Canonical())
		return err
	}
	var list manifest.Errors
	if err != nil && !errors.As(err, &list) {
		list = manifest.Errors{{Message: err.Error()}}
	}
	if o.out == "json" {
		v := verdict{Valid: err == nil, Errors: append([]manifest.Error{}, list...), Granted: from.Grants()}
		if werr := writeJSON(e.stdout, v); werr != nil || err == nil {
			return werr
		}
		return statusError{exitUsage, nil}
	}
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(e.stdout, "%s: valid, %d jobs of app %s\n", from, len(m.Jobs), m.App)
	if g := from.Grants(); g != nil {
		fmt.Fprintf(e.stdout, "  granted to %s: %s\n", g.Origin, g)
	}
	for i := range m.Jobs {
		fmt.Fprintf(e.stdout, "  %s: %s\n", m.Jobs[i].Key(), reach(&m.Jobs[i]))
		if t := m.Jobs[i].Task; t != nil {
			fmt.Fprintf(e.stdout, "    enqueues %s into %s; the store must have queues (`dibs doctor` checks this)\n", t.Kind, t.Queue)
		}
		for _, line := range whoIsTold(&m.Jobs[i]) {
			fmt.Fprintf(e.stdout, "    %s\n", line)
		}
	}
	return nil
}

// reach says plainly who runs a job (promise 12).
func reach(s *job.Spec) string {
	switch {
	case s.Policy.Scope == job.Global:
		return "one server of the fleet runs each tick"
	case s.ScopeDeclared:
		return "EVERY server runs each tick (scope host)"
	}
	return "EVERY server runs each tick (no concurrency_scope; `dibs serve` on a shared store requires --default-scope)"
}

// whoIsTold says who is told what happens to a job, a line for each hook.
func whoIsTold(s *job.Spec) (lines []string) {
	for _, h := range s.Hooks {
		var on []string
		for _, e := range h.On {
			text := string(e)
			if e == job.OnTooLong {
				text += fmt.Sprintf(" (%s)", h.TooLong)
			}
			on = append(on, text)
		}
		lines = append(lines, fmt.Sprintf("hook on %s: %s", strings.Join(on, ", "), hook.Describe(&h)))
	}
	return lines
}
