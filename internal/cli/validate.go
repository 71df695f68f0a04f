package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
)

// validateOptions are the flags of `dibs validate`.
type validateOptions struct {
	out       format
	canonical bool
	source    string
}

func newValidate(e env) *cobra.Command {
	o := validateOptions{}
	cmd := &cobra.Command{Use: "validate MANIFEST", Short: "Check a manifest and say which jobs every server will run",
		Long:    "Check a manifest, JSON or YAML. Every error names its path. Exit status: 0 valid, 2 not valid.",
		Example: "  dibs validate jobs.yaml\n  dibs validate jobs.yaml --canonical > jobs.json",
		Args:    exactly(1, "one manifest"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.source = args[0]
			return runValidate(e, o)
		}}
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVar(&o.canonical, "canonical", false, "print the canonical form: JSON with every default written out, byte-exact")
	return cmd
}

// verdict is what `dibs validate -o json` prints; its form is stable.
type verdict struct {
	Valid  bool             `json:"valid"`
	Errors []manifest.Error `json:"errors"`
}

func runValidate(e env, o validateOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	b, err := os.ReadFile(o.source)
	if err != nil {
		return usage(fmt.Errorf("manifest: %w", err))
	}
	m, err := manifest.Load(b, o.source)
	if o.canonical && err == nil {
		_, err := e.stdout.Write(m.Canonical())
		return err
	}
	var list manifest.Errors
	if err != nil && !errors.As(err, &list) {
		list = manifest.Errors{{Message: err.Error()}}
	}
	if o.out == "json" {
		v := verdict{Valid: err == nil, Errors: append([]manifest.Error{}, list...)}
		if werr := writeJSON(e.stdout, v); werr != nil || err == nil {
			return werr
		}
		return statusError{exitUsage, nil}
	}
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(e.stdout, "%s: valid, %d jobs of app %s\n", o.source, len(m.Jobs), m.App)
	for i := range m.Jobs {
		fmt.Fprintf(e.stdout, "  %s: %s\n", m.Jobs[i].Key(), reach(&m.Jobs[i]))
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
	return "EVERY server runs each tick (no concurrency_scope is said; `dibs serve` on a shared store asks for --default-scope)"
}
