package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/applied"
	"github.com/dibs-run/dibs/deploy/crontab"
	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/schedule"
)

// entryOptions are the flags that say what the entries of a manifest are to be.
type entryOptions struct {
	targetOptions
	serveOptions
	binary, user string
	formerly     []string
	// specDir is where copies of specifications are; empty: entries name the manifest.
	specDir string
	// set are the flags that were given.
	set *pflag.FlagSet
}

func (o *entryOptions) flags(cmd *cobra.Command) {
	o.targetOptions.flags(cmd)
	o.sourceOptions.flags(cmd)
	o.podOptions.flags(cmd)
	f := cmd.Flags()
	o.set = f
	f.Var((*storeValue)(&o.store), "store", "the store that entries name; an address with a password is refused, because\n"+
		"other users can read entries: put it into /etc/dibs/store (default: what entries\nfind there, or in $DIBS_STORE_FILE)")
	f.StringVar(&o.serveOptions.scope, "default-scope", "", "host or global: the scope of jobs without concurrency_scope; required for\nsuch jobs on a shared store")
	environmentFlag(cmd, &o.environment)
	f.StringVar(&o.binary, "binary", "", "the `PATH` of dibs in entries (default: this program's; in containers /usr/bin/dibs)")
	f.StringVar(&o.user, "user", "", "the user of entries, in a file with users (default root); in pods a number\n(default: the image's user)")
	f.StringVar(&o.specDir, "spec-dir", "", specDirHelp)
	f.StringArrayVar(&o.formerly, "formerly", nil, "an earlier `NAME` of the app: its entries become this app's")
}

// wanted are the entries of a manifest.
type wanted struct {
	app     string
	target  target
	entries []deploy.Entry
	// from is the manifest's absolute path, or its address. jobs are all of the manifest's; specs are the copies that
	// entries name.
	from  string
	jobs  []job.Spec
	specs []applied.Spec
	// readers is the group that may read the copies, or -1.
	readers int
	// notes are what somebody should know of them, though nothing is wrong. warnings are of entries beside them that
	// start the same jobs.
	notes, warnings []string
}

// entries reads the manifest and makes the entries that it wants in the target.
func (o entryOptions) entries(ctx context.Context, e env, name string) (w wanted, err error) {
	if name == "-" {
		return w, usage(errors.New("standard input: entries read the manifest each time, so name a file, a directory or an address"))
	}
	if o.serveOptions.source = name; !source.IsAddress(name) {
		if o.serveOptions.source, err = filepath.Abs(name); err != nil {
			return w, err
		}
	}
	if err := o.checkSpecDir(); err != nil {
		return w, usage(err)
	}
	if w.readers, err = o.readers(); err != nil {
		return w, usage(err)
	}
	w.from = o.serveOptions.source
	common, err := o.common(&w)
	if err != nil {
		return w, usage(err)
	}
	var a address
	if !o.inContainer() {
		if a, err = resolve(o.store); err != nil {
			return w, usage(err)
		}
	}
	from, err := o.sourceOptions.open(e, o.serveOptions.source)
	if err != nil {
		return w, err
	}
	if own, _, _ := o.references(); strings.HasPrefix(own, "env:") && !o.inContainer() {
		return w, usage(fmt.Errorf("--secret %s: entries do not get this shell's variables: keep the secret in a file (--secret file:/path)", own))
	}
	m, err := from.Load(ctx)
	if err != nil {
		return w, usage(err)
	}
	w.app, w.jobs = m.App, m.Jobs
	if w.target, err = o.targetOptions.open(w.app); err != nil {
		return w, err
	}
	var errs []error // scopes are decided as dibs trigger will decide them
	for i := range m.Jobs {
		if o.inContainer() {
			if err := o.scopeInContainer(&m.Jobs[i]); err != nil {
				errs = append(errs, err)
				continue
			}
		} else if err := a.at().DecideScope(&m.Jobs[i], job.Scope(o.serveOptions.scope), o.serveOptions.source); err != nil {
			return w, usage(reworded(err))
		}
		errs = append(errs, o.add(&w, &m.Jobs[i], common))
	}
	if o.inPods() {
		errs = append(errs, o.clash(w.entries))
	}
	if w.target.function {
		w.notes = append(w.notes, "EventBridge hands the function only the job and the tick: let it run dibs lambda "+
			strings.Join(slices.DeleteFunc(slices.Clone(common.Command[3:]), func(s string) bool { return s == "--contended-exit" || s == "0" }), " "))
	}
	return w, usageOf(errors.Join(errs...))
}

func usageOf(err error) error {
	if err == nil {
		return nil
	}
	return usage(err)
}

// common is what all entries have: the program, its flags, and the variables that it needs.
func (o entryOptions) common(w *wanted) (c deploy.Entry, err error) {
	manifest := o.serveOptions.source
	if o.inContainer() {
		o.binary = cmp.Or(o.binary, binaryInContainer)
	}
	if o.inPods() && !source.IsAddress(manifest) {
		manifest = kubernetes.ManifestPath
	}
	if o.binary == "" {
		if o.binary, err = os.Executable(); err != nil {
			return c, err
		}
	}
	if !filepath.IsAbs(o.binary) {
		return c, fmt.Errorf("--binary %s: want an absolute path", o.binary)
	}
	c.Command = []string{o.binary, "trigger", "", "--manifest", manifest}
	c.User, c.Env = o.user, map[string]string{}
	flag := func(name, value string) {
		if value != "" {
			c.Command = append(c.Command, name, value)
		}
	}
	flag("--default-scope", o.serveOptions.scope)
	flag("--environment", o.environment)
	secrets, err := o.absoluteSecrets()
	if err != nil {
		return c, err
	}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"--secret", secrets}, {"--app", o.apps}, {"--allow-host", o.hosts}, {"--allow-queue", o.queues}, {"--allow-limit", o.limits}} {
		for _, v := range list.values {
			flag(list.flag, v)
		}
	}
	if o.allowHTTP {
		c.Command = append(c.Command, "--allow-http")
	}
	if o.inContainer() {
		return c, o.nameStoreInContainer(&c)
	}
	if dir := os.Getenv("DIBS_DIR"); dir != "" {
		if c.Env["DIBS_DIR"], err = filepath.Abs(dir); err != nil {
			return c, err
		}
	}
	return c, o.nameStore(w, &c)
}

// absoluteSecrets are the values of --secret for entries, which start in another directory. In a container, a path is
// one there.
func (o entryOptions) absoluteSecrets() (all []string, err error) {
	if o.inContainer() {
		return o.secrets, nil
	}
	for _, text := range o.secrets {
		name, at := "", text
		if !secret.IsPlace(text) {
			before, after, _ := strings.Cut(text, "=")
			name, at = before+"=", after
		}
		if path, ok := strings.CutPrefix(at, "file:"); ok {
			if path, err = filepath.Abs(path); err != nil {
				return nil, err
			}
			at = "file:" + path
		}
		all = append(all, name+at)
	}
	return all, nil
}

// nameStore sees to it that entries find the store that this command would.
func (o entryOptions) nameStore(w *wanted, c *deploy.Entry) error {
	a, err := resolve(o.store)
	if err != nil {
		return err
	}
	file, said := os.LookupEnv("DIBS_STORE_FILE")
	switch {
	case a.Secret() && o.store != "":
		return fmt.Errorf("--store %s: it contains a password, and other users can read entries: put the address into /etc/dibs/store, or into a file that $DIBS_STORE_FILE names", a)
	case o.store != "":
		at, err := absoluteStore(o.store)
		if err != nil {
			return err
		}
		c.Command = append(c.Command, "--store", at)
	case os.Getenv("DIBS_STORE") != "":
		return errors.New("DIBS_STORE is set here, and entries do not get it: put the address into /etc/dibs/store, or name a store without a password with --store")
	case said:
		if c.Env["DIBS_STORE_FILE"], err = filepath.Abs(file); err != nil {
			return err
		}
	case a.implicit:
		w.notes = append(w.notes, fmt.Sprintf("no store is named, so entries use this host's own directory, %s, which other hosts cannot see", a))
	}
	return nil
}

// beside is a path as it was probably meant: from the folder of the manifest.
func (o entryOptions) beside(path string) string {
	if source.IsAddress(o.serveOptions.source) {
		return "/" + path
	}
	return filepath.Join(filepath.Dir(o.serveOptions.source), path)
}

// relative refuses a command that depends on the directory in which dibs starts.
func relative(c *job.Command) error {
	switch {
	case c == nil:
		return nil
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return fmt.Errorf("its dir %s is relative", c.Dir)
	case c.Dir == "" && len(c.Args) > 0 && strings.Contains(c.Args[0], "/") && !filepath.IsAbs(c.Args[0]):
		return fmt.Errorf("its program %s is relative", c.Args[0])
	}
	return nil
}

// add makes the entries of a job.
func (o entryOptions) add(w *wanted, spec *job.Spec, common deploy.Entry) error {
	key := spec.Key()
	if len(spec.Environments) > 0 && !slices.Contains(spec.Environments, o.environment) {
		w.notes = append(w.notes, fmt.Sprintf("%s is left out: it is for %s, and this host's environment is %q (--environment)",
			key, strings.Join(spec.Environments, ", "), o.environment))
		return nil
	}
	for _, ref := range secret.Of(spec) {
		if at, err := o.whereIs(ref); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		} else if strings.HasPrefix(at, "env:") && !o.inContainer() {
			return fmt.Errorf("%s: its secret %q is in the environment, which entries do not get: keep it in a file (file:/path)", key, ref)
		} else if path, is := strings.CutPrefix(ref, "file:"); is && !o.inContainer() && !filepath.IsAbs(path) {
			return fmt.Errorf("%s: its secret %s has a relative path, and %s starts entries elsewhere: write file:%s",
				key, ref, w.target.name, o.beside(path))
		}
	}
	if err := relative(spec.Command); err != nil && !o.inContainer() {
		return fmt.Errorf("%s: %w, and %s starts entries elsewhere: write an absolute path", key, err, w.target.name)
	}
	zone, err := schedule.LoadZone(spec.Timezone)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	var errs []error
	for i, expr := range spec.Schedules {
		s, err := schedule.Options{Zone: zone, Name: key, DST: schedule.DST(spec.DST)}.Parse(expr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			continue
		}
		lines, more, err := w.target.translate(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			continue
		}
		entry := common
		entry.ID = deploy.ID{App: spec.App, Job: spec.Name, Index: i}
		entry.Declared = fmt.Sprintf("%s in %s, dst %s", s, s.Zone(), s.DST())
		entry.When = lines
		entry.Command = slices.Clone(common.Command)
		entry.Command[2] = key
		o.copied(w, &entry, spec)
		if more {
			w.notes = append(w.notes, fmt.Sprintf("%s: %s cannot express %q in %s, and starts more often (%s): dibs trigger runs only the ticks",
				entry.ID, w.target.name, s, s.Zone(), strings.Join(lines, "; ")))
		}
		if o.inContainer() {
			entry.StartWithin = startWithin(spec)
			w.notes = append(w.notes, startsLate(w.target, entry.ID, spec, s)...)
		}
		entry.Plain = plainOf(spec, s)
		entry.Overlap = spec.Policy.Concurrency != job.Forbid
		entry.Persistent = spec.Policy.CatchUp != job.CatchUpSkip
		entry.StopGrace = spec.Policy.StopGrace
		if err := o.sandboxed(&entry, spec); err != nil {
			errs = append(errs, err)
			break
		}
		if o.inPods() {
			if err := o.inPod(&entry, spec, s, !more && len(lines) == 1); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		w.entries = append(w.entries, entry)
	}
	return errors.Join(errs...)
}

// plainOf is what a job does as a line of a crontab could, without dibs; nil where no line can.
func plainOf(spec *job.Spec, s *schedule.Schedule) *deploy.Plain {
	c := spec.Command
	t, err := crontab.Translate(s, s.Zone())
	if c == nil || err != nil || t.More || spec.When != nil || len(c.EnvFrom) > 0 || c.Group != "" || c.Umask != nil || c.Nice != 0 || len(c.Sandbox) > 0 {
		return nil
	}
	return &deploy.Plain{When: t.Lines, Zone: s.Zone().String(), Shell: c.Shell, Args: c.Args, Dir: c.Dir, User: c.User, Env: c.Env}
}
