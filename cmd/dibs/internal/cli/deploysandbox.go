package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest/source"
)

// sandboxPath is what a unit takes as a path without quotes.
var sandboxPath = lazy.Regexp(`^/[A-Za-z0-9_.,@+/-]{0,500}$`)

// sandboxed gives an entry its job's sandbox, and refuses targets that have none: there the command would run without.
func (o *entryOptions) sandboxed(e *deploy.Entry, spec *job.Spec) error {
	if spec.Command == nil || len(spec.Command.Sandbox) == 0 {
		return nil
	}
	if kind, _, _ := strings.Cut(o.to, ":"); kind != "systemd" || o.to == "systemd:user" {
		return fmt.Errorf("%s: it has a sandbox, which only units of the system give: install it with --to systemd, or remove sandbox", spec.Key())
	}
	s := maps.Clone(spec.Command.Sandbox)
	own, err := o.ownPaths(e)
	if err != nil {
		return fmt.Errorf("%s: %w", spec.Key(), err)
	}
	if s["ProtectSystem"] != nil || s["ReadOnlyPaths"] != nil || s["ProtectHome"] != nil {
		s["ReadWritePaths"] = slices.Concat(s["ReadWritePaths"], own)
	}
	for _, name := range s.Names() {
		e.Sandbox = append(e.Sandbox, name+"="+strings.Join(s[name], " "))
	}
	e.Env = maps.Clone(e.Env)
	e.Env[job.SandboxVariable] = spec.Command.Sandbox.Hash() // dibs trigger refuses to run it elsewhere
	return hidden(e, spec, own)
}

// ownPaths are what dibs writes in the entry's unit: this host's own directory, and a store that is a directory.
func (o *entryOptions) ownPaths(e *deploy.Entry) (all []string, err error) {
	a, err := resolve(o.store)
	if err != nil {
		return nil, err
	}
	dirs := []string{hostDir()}
	if !a.shared() && a.URL.Scheme != "memory" {
		dirs = append(dirs, a.URL.Path)
	}
	for _, dir := range dirs {
		if !sandboxPath().MatchString(dir) {
			return nil, fmt.Errorf("its sandbox must leave %q writable, and a unit cannot name that: want a path of letters, digits and _ . , @ + -", dir)
		}
		if dir = "-" + filepath.Clean(dir); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all, nil
}

// hidden refuses a sandbox that hides the manifest, dibs itself, or what dibs writes, from dibs.
func hidden(e *deploy.Entry, spec *job.Spec, own []string) error {
	s := spec.Command.Sandbox
	gone := slices.Clone(s["InaccessiblePaths"])
	if slices.Equal(s["ProtectHome"], []string{"tmpfs"}) {
		gone = append(gone, "/home", "/root", "/run/user")
	}
	if s["PrivateTmp"] != nil {
		gone = append(gone, "/tmp", "/var/tmp")
	}
	needed := []string{e.Command[0], e.Env["DIBS_STORE_FILE"]}
	for _, dir := range own {
		needed = append(needed, strings.TrimPrefix(dir, "-"))
	}
	if at := slices.Index(e.Command, "--manifest"); at > 0 && !source.IsAddress(e.Command[at+1]) {
		needed = append(needed, e.Command[at+1])
	}
	for _, dir := range gone {
		dir = filepath.Clean(strings.TrimPrefix(dir, "-"))
		for _, path := range needed {
			if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
				return fmt.Errorf("%s: its sandbox hides %s, and dibs trigger needs %s there: move that, or change the sandbox", spec.Key(), dir, path)
			}
		}
	}
	return nil
}

// boxed looks whether the sandbox that this process's unit says to have is there. That a job without its sandbox does
// not run is package serve's matter.
func (t *trigger) boxed() error {
	spec := t.job.Spec()
	if spec.Command == nil || len(spec.Command.Sandbox) == 0 {
		return nil
	}
	if os.Getenv(job.SandboxVariable) != spec.Command.Sandbox.Hash() {
		return nil
	}
	if err := inForce(spec.Command.Sandbox); err != nil {
		t.job.Close(context.Background())
		return fmt.Errorf("%s: %w", spec.Key(), err)
	}
	return nil
}
