package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/applied"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/manifest/source"
)

// recordsDir is where this host remembers what was applied. Root's is beside the store's address: a record says which
// files and addresses are read, so no other user may write there.
func recordsDir() applied.Records {
	if dir := os.Getenv("DIBS_DIR"); dir != "" {
		return applied.Records(filepath.Join(hostDir(), "applied"))
	}
	if os.Geteuid() == 0 {
		return "/etc/dibs/applied"
	}
	home, err := homeOf(os.Geteuid())
	if err != nil {
		home = hostDir()
	}
	return applied.Records(filepath.Join(home, ".config", "dibs", "applied"))
}

// storeVariables are the variables of this process that say where entries have their store. DIBS_STORE does not: it is
// refused. targetVariables say which target is meant; they contain no secret.
var (
	storeVariables  = []string{"DIBS_DIR", "DIBS_STORE_FILE"}
	targetVariables = []string{"KUBECONFIG", "AWS_PROFILE", "AWS_REGION"}
	entryVariables  = slices.Concat(storeVariables, targetVariables)
)

// passing are the flags of plan, apply and the others that say nothing of the entries.
var passing = []string{"all", "dry-run", "formerly", "help", "manifest", "output", "overwrite", "plan", "render", "watch"}

// record is what this host remembers of entries that were just installed. Paths in it are absolute.
func (o *entryOptions) record(w wanted) (r applied.Record, err error) {
	r = applied.Record{App: w.app, Target: w.target.String(), Manifest: w.from, To: o.to, Env: map[string]string{}}
	add := func(name, value string) {
		if value != "" {
			r.Args = append(r.Args, "--"+name+"="+value)
		}
	}
	o.set.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(passing, f.Name) || !f.Changed {
			return
		}
		switch list, many := f.Value.(pflag.SliceValue); {
		case f.Name == "to", f.Name == "store", f.Name == "binary", f.Name == "environment":
		case many:
			for _, v := range list.GetSlice() {
				add(f.Name, v)
			}
		default:
			add(f.Name, f.Value.String())
		}
	})
	if kind, file, ok := strings.Cut(o.to, ":"); ok && kind == "eventbridge" {
		if file, err = filepath.Abs(file); err != nil {
			return r, err
		}
		r.To = kind + ":" + file
	}
	if isKubernetes(o.to) {
		r.To = r.Target // whatever becomes the current context
	}
	add("to", r.To)
	add("environment", o.environment)
	at, err := absoluteStore(o.store)
	if err != nil {
		return r, err
	}
	add("store", at)
	program := ""
	if !o.inContainer() {
		program, _ = os.Executable() // else it is the usual one
	}
	add("binary", cmp.Or(o.binary, program))
	for _, name := range entryVariables {
		value, said := os.LookupEnv(name)
		if !said {
			continue
		}
		switch {
		case value == "", name == "AWS_PROFILE", name == "AWS_REGION":
		case name == "KUBECONFIG":
			value, err = absoluteList(value)
		default:
			value, err = filepath.Abs(value)
		}
		if err != nil {
			return r, err
		}
		r.Env[name] = value
	}
	return r, nil
}

// absoluteList are paths as in KUBECONFIG that mean the same everywhere.
func absoluteList(list string) (string, error) {
	var all []string
	for _, path := range filepath.SplitList(list) {
		if path == "" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		all = append(all, path)
	}
	return strings.Join(all, string(filepath.ListSeparator)), nil
}

// absoluteStore is a store's address whose path means the same everywhere.
func absoluteStore(at string) (string, error) {
	path, parameters, more := strings.Cut(at, "?")
	if path != "" && !strings.Contains(path, "://") && !strings.HasPrefix(path, "memory:") {
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	if more {
		path += "?" + parameters
	}
	return path, nil
}

// remember has this host remember what was applied. That it cannot is no failure of the apply.
func (o *entryOptions) remember(e env, w wanted) {
	r, err := o.record(w)
	if err == nil {
		err = recordsDir().Put(r)
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "dibs: the entries are installed, but this host does not remember them, so dibs list cannot compare them: %v\n", err)
	}
}

// forget has this host forget entries that are gone.
func forget(e env, w wanted) {
	if err := recordsDir().Drop(w.app, w.target.String()); err != nil {
		fmt.Fprintf(e.stderr, "dibs: the entries are gone, but this host still remembers them: %v\n", err)
	}
}

// underVariables calls f with the variables that were there at an apply.
func underVariables(was map[string]string, f func()) {
	for _, name := range append([]string{"DIBS_STORE"}, entryVariables...) {
		now, said := os.LookupEnv(name)
		defer func() {
			if said {
				_ = os.Setenv(name, now)
			} else {
				_ = os.Unsetenv(name)
			}
		}()
		if value, ok := was[name]; ok {
			_ = os.Setenv(name, value)
		} else {
			_ = os.Unsetenv(name)
		}
	}
	f()
}

const specDirHelp = "copy each job's specification into this `DIR`, and have entries name the copy: they\nthen need no manifest, and a changed job takes effect at the next apply"

// checkSpecDir refuses --spec-dir where an entry cannot name a copy.
func (o *entryOptions) checkSpecDir() error {
	switch {
	case o.specDir == "":
		return nil
	case o.inContainer():
		return errors.New("--spec-dir is for crontabs and systemd: a container does not see this host's files; a CronJob contains its manifest anyway")
	case source.IsAddress(o.serveOptions.source):
		return errors.New("--spec-dir: an application's manifest is requested each time, because a copy could use what the application was not granted: leave it out")
	case !filepath.IsAbs(o.specDir):
		return fmt.Errorf("--spec-dir %s: want an absolute path", o.specDir)
	}
	return nil
}

// copied makes an entry name a copy of its job's specification.
func (o *entryOptions) copied(w *wanted, entry *deploy.Entry, spec *job.Spec) {
	if o.specDir == "" {
		return
	}
	one := manifest.Manifest{App: spec.App, Jobs: []job.Spec{*spec}}
	s := applied.Spec{App: spec.App, Job: spec.Name, Text: one.Canonical(), Group: w.readers}
	at := slices.Index(entry.Command, "--manifest")
	entry.Command[at+1] = applied.Specs(o.specDir).Path(s)
	w.specs = append(w.specs, s)
}

// leaveSpecs writes the copies before entries name them.
func (o *deployOptions) leaveSpecs(w wanted, all []planned) error {
	switch all[0].request.(type) {
	case deploy.Install, deploy.Adopt:
	default:
		return nil
	}
	return applied.Specs(o.specDir).Put(w.specs)
}

// missingSpecs adds to a plan the copies that entries name and that are not there, or not as they were written.
func (o *entryOptions) missingSpecs(w wanted, p *deploy.Plan) {
	bad := map[deploy.ID]string{}
	for _, s := range w.specs {
		if why := applied.Specs(o.specDir).Differs(s); why != "" {
			bad[deploy.ID{App: s.App, Job: s.Job}] = why
		}
	}
	for _, s := range p.Steps {
		if why := bad[deploy.ID{App: s.ID.App, Job: s.ID.Job}]; why != "" && s.Action == deploy.Unchanged {
			p.Problems = append(p.Problems, deploy.Problem{ID: s.ID, Text: why + ": apply writes it again"})
		}
	}
}

// readers is the group of the user who runs the entries, if that is another one than root and the current one.
func (o *entryOptions) readers() (group int, err error) {
	name := o.user
	if kind, who, _ := strings.Cut(o.to, ":"); kind == "crontab" && who != "" && !filepath.IsAbs(who) {
		name = who
	}
	if o.specDir == "" || name == "" || name == "root" {
		return -1, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return -1, fmt.Errorf("--spec-dir: who runs the entries, and reads the copies: %w", err)
	}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return -1, nil
	}
	return strconv.Atoi(u.Gid)
}

// afterwards brings what this host remembers in step with what was carried out.
func (o *deployOptions) afterwards(ctx context.Context, e env, w wanted, all []planned) error {
	switch r := all[0].request.(type) {
	case deploy.Install:
		for _, p := range all {
			for _, old := range o.formerly {
				forget(e, wanted{app: old, target: p.target})
			}
		}
		o.remember(e, w)
	case deploy.Adopt:
		if has(all, deploy.Adopted) || has(all, deploy.Unchanged) {
			o.remember(e, w)
		}
	case deploy.Prune:
		if len(r.Entries) == 0 && !has(all, deploy.Edited) {
			forget(e, w)
		}
		return o.sweepSpecs(ctx, w, all[0].plan)
	case deploy.Eject:
		if len(r.Jobs) == 0 {
			forget(e, w)
		}
	}
	return nil
}

// sweepSpecs removes copies that entries named before this plan, and that none names any more, neither here nor in
// another target that this host remembers. A copy that an apply replaced stays: a fire may have begun with it.
func (o *entryOptions) sweepSpecs(ctx context.Context, w wanted, p *deploy.Plan) error {
	if o.specDir == "" {
		return nil
	}
	before, after := p.Texts()
	others, err := recordsDir().All()
	for _, r := range others {
		if r.Target == w.target.String() {
			continue
		}
		image, rerr := imageOf(ctx, r)
		if err = errors.Join(err, rerr); rerr == nil {
			for _, d := range image.Documents() {
				after = append(after, d.Text)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("pruned, but the copies in %s stay, because entries elsewhere may name them: %w", o.specDir, err)
	}
	return applied.Specs(o.specDir).Sweep(w.app, before, after)
}

// rememberedOptions are the flags that a record has.
func rememberedOptions(r applied.Record) (*deployOptions, error) {
	o := &deployOptions{}
	cmd := &cobra.Command{}
	o.flags(cmd)
	if err := cmd.ParseFlags(r.Args); err != nil {
		return nil, fmt.Errorf("what this host remembers of %s in %s: %w; apply again", r.App, r.Target, err)
	}
	return o, nil
}

// moved refuses what a record's --to has become: another kubeconfig or another region.
func moved(r applied.Record, now string) error {
	if now == r.Target {
		return nil
	}
	return fmt.Errorf("%s is now %s: apply again, or forget it with dibs prune --all", r.Target, now)
}

// imageOf reads a target that this host remembers, without its manifest.
func imageOf(ctx context.Context, r applied.Record) (image deploy.Image, err error) {
	o, err := rememberedOptions(r)
	if err != nil {
		return nil, err
	}
	underVariables(r.Env, func() {
		var t target
		if t, err = o.targetOptions.open(r.App); err == nil {
			err = moved(r, t.String())
		}
		if err == nil {
			image, err = t.Read(ctx)
		}
	})
	return image, err
}

// sameRuns says whether the entries of two targets run their jobs alike, in the same store: all but the flags that say
// where and by whom agree.
func sameRuns(a, b applied.Record) bool {
	of := func(r applied.Record) []string {
		return slices.DeleteFunc(slices.Clone(r.Args), func(arg string) bool {
			name, _, _ := strings.Cut(arg, "=")
			return slices.Contains([]string{"--to", "--binary", "--user", "--path", "--spec-dir"}, name)
		})
	}
	for _, name := range storeVariables {
		if a.Env[name] != b.Env[name] {
			return false
		}
	}
	return slices.Equal(of(a), of(b))
}

// recall finds the manifest of a job that dibs apply installed from this host, and the flags that apply was given,
// where this command was given none. The store must be the one of the entries: elsewhere, nobody
// would see their leases.
func (o *serveOptions) recall(name string) error {
	app, _, _ := strings.Cut(strings.Replace(name, "/", ".", 1), ".")
	records, err := recordsDir().All()
	records = slices.DeleteFunc(records, func(r applied.Record) bool { return r.App != app })
	if len(records) == 0 {
		if errors.Is(err, fs.ErrPermission) {
			err = nil // what root applied; the usual error says what to name
		}
		return err
	}
	one := records[0]
	for _, r := range records[1:] {
		switch {
		case r.Manifest != one.Manifest:
			return usage(fmt.Errorf("%s: this host has installed %s from %s and from %s: name one with --manifest", name, app, one.Manifest, r.Manifest))
		case !sameRuns(one, r):
			return usage(fmt.Errorf("%s: installed with different flags in %s and %s: name --manifest and --store", name, one.Target, r.Target))
		}
	}
	was, err := rememberedOptions(one)
	if err != nil {
		return err
	}
	from := was.serveOptions
	o.source = one.Manifest
	o.scope, o.environment = cmp.Or(o.scope, from.scope), cmp.Or(o.environment, from.environment)
	if len(o.secrets)+len(o.apps)+len(o.hosts)+len(o.queues)+len(o.limits) == 0 {
		o.sourceOptions = from.sourceOptions
	}
	if o.store == "" && os.Getenv("DIBS_STORE") == "" {
		o.store = from.store
	}
	for name, value := range one.Env {
		if _, said := os.LookupEnv(name); !said && slices.Contains(storeVariables, name) {
			_ = os.Setenv(name, value)
		}
	}
	return nil
}
