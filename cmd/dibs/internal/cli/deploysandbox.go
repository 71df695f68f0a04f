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
	"github.com/dibs-run/dibs/internal/secret"
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
	return o.hidden(e, spec, own)
}

// ownPaths are what dibs writes in the entry's unit: this host's own directory, and a store that is a directory.
func (o *entryOptions) ownPaths(e *deploy.Entry) (all []string, err error) {
	a, err := resolve(o.store)
	if err != nil {
		return nil, err
	}
	var dirs []string
	if dir := hostDir(); dir != "" {
		dirs = append(dirs, dir)
	}
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

// hidden refuses a sandbox that hides the manifest, dibs itself, or what dibs reads and writes, from dibs, and one
// under which it cannot write.
func (o *entryOptions) hidden(e *deploy.Entry, spec *job.Spec, own []string) error {
	s := spec.Command.Sandbox
	gone := slices.Clone(s["InaccessiblePaths"])
	if slices.Equal(s["ProtectHome"], []string{"tmpfs"}) {
		gone = append(gone, "/home", "/root", "/run/user")
	}
	if s["PrivateTmp"] != nil {
		gone = append(gone, "/tmp", "/var/tmp")
	}
	needed, err := o.read(e, spec)
	if err != nil {
		return fmt.Errorf("%s: %w", spec.Key(), err)
	}
	for _, dir := range own {
		dir = unprefixed(dir)
		needed = append(needed, dir)
		for _, path := range s["ReadOnlyPaths"] { // around it, the unit's ReadWritePaths make an exception
			if path = unprefixed(path); within(path, dir) {
				return fmt.Errorf("%s: its sandbox makes %s read only, and dibs trigger writes into %s: change the sandbox", spec.Key(), path, dir)
			}
		}
	}
	for _, dir := range gone {
		dir = unprefixed(dir)
		for _, path := range needed {
			if within(path, dir) {
				return fmt.Errorf("%s: its sandbox hides %s, and dibs trigger needs %s there: move that, or change the sandbox", spec.Key(), dir, path)
			}
		}
	}
	return nil
}

// read are the files that dibs trigger reads for an entry.
func (o *entryOptions) read(e *deploy.Entry, spec *job.Spec) ([]string, error) {
	a, err := resolve(o.store)
	if err != nil {
		return nil, err
	}
	all := []string{e.Command[0], a.file}
	if at := slices.Index(e.Command, "--manifest"); at > 0 && !source.IsAddress(e.Command[at+1]) {
		all = append(all, e.Command[at+1])
	}
	places := []string{o.places().Own}
	for _, ref := range secret.Of(spec) {
		at, err := o.whereIs(ref)
		if err != nil {
			return nil, err
		}
		places = append(places, at)
	}
	for _, at := range places {
		if path, ok := strings.CutPrefix(at, "file:"); ok {
			all = append(all, path)
		}
	}
	for i, path := range all {
		if path == "" {
			continue
		}
		if all[i], err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// unprefixed is the path of an entry of a sandbox's list, in its shortest form.
func unprefixed(entry string) string { return filepath.Clean(strings.TrimPrefix(entry, "-")) }

// within says whether a path is a directory, or in it. Both are in their shortest form.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
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
