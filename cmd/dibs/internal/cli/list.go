package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// listOptions are the flags of `dibs list` and `dibs show`.
type listOptions struct {
	deployOptions
	manifest, name string
	one            bool
}

const listHelp = `List jobs: where each is installed, whether the entry there is what apply would write now, when the job is due next,
and how it last ended. These are the jobs that dibs apply or adopt installed from this host, those in /etc/cron.d,
/etc/crontab and /etc/systemd/system, and those that the store knows. It writes nothing.

INSTALLED is:

  in sync       as apply would write it now, from the manifest that apply was given
  missing       the manifest has the job, and the target does not: apply
  outdated      the job, or dibs, has changed since: apply
  edited        somebody changed the entry by hand
  stale         the manifest no longer has the job: prune
  broken        the entry cannot do what its text says; dibs show says why
  unedited      as it was written; no manifest is remembered, so nothing else is known (--manifest and --to)
  unknown       the target cannot be read; dibs show says why
  -             not installed: dibs serve, a Go program or dibs run runs it

Exit status: 0 listed, 69 the store is unavailable or not prepared (what is known without it is listed).`

func newList(e env) *cobra.Command {
	o := listOptions{}
	cmd := &cobra.Command{Use: "list [PREFIX]", Short: "List jobs: where they are installed, when due, how they ended", Long: listHelp,
		Example: `  dibs list
  dibs list shop/ -o json
  dibs list --manifest jobs.yaml --to kubernetes/shop --image registry.example/shop:42`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%w: want one prefix at most", errUsage)
			}
			o.name = strings.Join(args, "")
			return o.run(cmd.Context(), e)
		}}
	o.listFlags(cmd)
	return cmd
}

const showHelp = `Show one job: its schedule and policy, when it is due next, how it last ended, where it is installed, and whether the
entry there is what apply would write now (dibs list --help explains the words). It writes nothing.

Exit status: 0 shown, 1 there is no such job, or it is not known, 69 the store is unavailable or not prepared.`

func newShow(e env) *cobra.Command {
	o := listOptions{one: true}
	cmd := &cobra.Command{Use: "show JOB", Short: "Show one job: where it is installed, when due, how it last ended", Long: showHelp,
		Example: "  dibs show shop/invoices\n  dibs show shop/invoices -o json",
		Args:    exactly(1, "one job, as APP/JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if app, name, ok := strings.Cut(o.name, "."); ok && !strings.Contains(o.name, "/") {
				o.name = app + "/" + name // as entries have it
			}
			return o.run(cmd.Context(), e)
		}}
	o.listFlags(cmd)
	return cmd
}

func (o *listOptions) listFlags(cmd *cobra.Command) {
	o.deployOptions.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.manifest, "manifest", "", "compare the target of --to with this `MANIFEST`, instead of what this host remembers;\nthe other flags are then those of dibs apply")
	f.Lookup("to").Usage = "with --manifest: the `TARGET`, as for dibs apply"
	f.Lookup("store").Usage = "the store: a directory or a URL (default $DIBS_STORE, the file $DIBS_STORE_FILE,\n/etc/dibs/store, else this host's own directory); with --manifest also the one that\nentries name"
}

// listedJob is a job as `dibs list` and `dibs show` have it; its JSON form is stable.
type listedJob struct {
	jobRecord
	Installed []placement `json:"installed"`
}

// unregistered is the state of a job that no store knows: it was never fired.
const unregistered = "unregistered"

func (o *listOptions) run(ctx context.Context, e env) error {
	if err := o.out.check(); err != nil {
		return err
	}
	if (o.manifest == "") != (o.to == "") {
		return usage(errors.New("want --manifest and --to together, or neither: then the targets that this host remembers are read"))
	}
	found, err := o.places(ctx, e)
	if err != nil {
		return err
	}
	all, storeErr := o.listed(ctx, e, found)
	if o.one {
		all = slices.DeleteFunc(all, func(j listedJob) bool { return j.Job != o.name })
		app, _, _ := strings.Cut(o.name, "/")
		if why := found.reasons(app); len(all) == 0 && why != nil {
			return errors.Join(fmt.Errorf("%s: whether it is installed is not known: %w", o.name, why), storeErr)
		}
		if len(all) == 0 && storeErr == nil {
			hint := ""
			if a, err := resolve(o.store); err == nil {
				hint = meantAt(ctx, e, a, o.name)
			}
			return fmt.Errorf("%s: no such job is installed here or registered in the store; `dibs list` lists them%s", o.name, hint)
		}
	}
	if err := o.tell(e, all); err != nil {
		return err
	}
	return storeErr
}

func (o *listOptions) tell(e env, all []listedJob) error {
	switch {
	case o.one && len(all) == 0:
		return nil
	case o.one && o.out == "json":
		return writeJSON(e.stdout, all[0])
	case o.out == "json":
		return writeJSON(e.stdout, all)
	case o.one:
		all[0].show(e)
		return nil
	}
	return tableOfJobs(e, all)
}

// listed joins what is installed with what stores know. An error says why the latter is not all; the jobs are there.
func (o *listOptions) listed(ctx context.Context, e env, found *placesFound) ([]listedJob, error) {
	stores, err := o.stores(ctx, e, found.stores)
	for _, p := range stores {
		defer p.close()
	}
	known := map[string]jobRecord{}
	for _, p := range stores {
		if rerr := o.registered(ctx, p, known); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	found.file(known)
	all := []listedJob{}
	for name, record := range known {
		if record.Removed.IsZero() || o.one || len(found.at[name]) > 0 {
			all = append(all, listedJob{record, append([]placement{}, found.at[name]...)})
		}
	}
	for name, at := range found.at {
		if _, ok := known[name]; !ok && (strings.HasPrefix(name, o.name) || strings.HasSuffix(name, "/") && strings.HasPrefix(o.name, name)) {
			all = append(all, listedJob{found.unregistered(name), at})
		}
	}
	slices.SortFunc(all, func(a, b listedJob) int { return strings.Compare(a.Job, b.Job) })
	return all, err
}

// stores are the store, those that entries name, and this host's own directory, where jobs of scope host are, if
// anything is there.
func (o *listOptions) stores(ctx context.Context, e env, named []string) (all []*opened, err error) {
	a, err := resolve(o.store)
	if err != nil {
		return nil, usage(err)
	}
	configs := []store.Config{a.Config}
	for _, text := range named {
		c, perr := store.Parse(text)
		if err = errors.Join(err, perr); perr == nil && o.store == "" && c.String() != a.String() {
			configs = append(configs, c)
		}
	}
	var own error
	for i, c := range configs {
		p, oerr := open(ctx, c, logTo(e))
		switch {
		case oerr == nil:
			all = append(all, p)
		case i == 0 && a.implicit && errors.Is(oerr, store.ErrNotPrepared):
			own = oerr
		default:
			err = errors.Join(err, oerr)
		}
	}
	if len(all) == 0 { // else nobody uses this host's own directory: entries name another store
		err = errors.Join(own, err)
	}
	if !a.shared() {
		return all, err
	}
	host, herr := a.host()
	if herr != nil {
		return all, errors.Join(err, herr)
	}
	switch p, herr := open(ctx, host, logTo(e)); {
	case herr == nil:
		all = append(all, p)
	case !errors.Is(herr, store.ErrNotPrepared):
		err = errors.Join(err, herr)
	}
	return all, err
}

// registered adds what a store knows. A job that two stores know has changed its scope: the later tick counts.
func (o *listOptions) registered(ctx context.Context, p *opened, known map[string]jobRecord) error {
	if !p.store.Ticked() {
		return nil
	}
	jobs, err := registry(ctx, p, o.name)
	if err != nil {
		return err
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j tick.Job) bool { return o.one && j.Name != o.name })
	records, err := describeJobs(ctx, p, jobs, now)
	if err != nil {
		return err
	}
	for _, r := range records {
		was, twice := known[r.Job]
		if !twice || !was.Removed.IsZero() && r.Removed.IsZero() || r.Removed.IsZero() && r.lastAt().After(was.lastAt()) {
			known[r.Job] = r
		}
	}
	return nil
}

func (r jobRecord) lastAt() time.Time {
	if r.Last == nil {
		return time.Time{}
	}
	return r.Last.Tick
}

// unregistered is a job that no store knows yet, as its manifest has it, if that is known.
func (f *placesFound) unregistered(name string) jobRecord {
	r := jobRecord{Job: name, State: unregistered, Schedules: []string{}, zone: time.UTC, Policy: &job.Policy{}}
	spec := f.specs[name]
	if spec == nil {
		return r
	}
	return r.scheduled(tick.Job{Name: name, Definition: spec.Definition()}, time.Now())
}

func tableOfJobs(e env, all []listedJob) error {
	var rows [][]string
	for _, j := range all {
		next, outcome, last := stampOf(j.Next), "never ran", "-"
		switch {
		case j.Pause != nil && j.Pause.Until.IsZero():
			next = "paused"
		case j.State == "removed" || j.State == "unreadable":
			next = j.State
		}
		if j.Last != nil {
			outcome, last = stateWord(j.Last.Outcome), stampOf(j.Last.Tick)
		}
		if len(j.Installed) == 0 {
			rows = append(rows, []string{j.Job, "-", next, outcome, last, "-"})
		}
		for _, p := range j.Installed {
			rows = append(rows, []string{j.Job, strings.ReplaceAll(p.State, "_", " "), next, outcome, last, p.Target})
		}
	}
	return e.table("JOB INSTALLED NEXT OUTCOME LAST TARGET", rows, "LAST")
}

// show prints one job, a fact a line.
func (j listedJob) show(e env) {
	line := func(name, value string) { fmt.Fprintf(e.stdout, "%-11s %s\n", name, printable(value)) }
	if j.State != unregistered {
		j.jobRecord.show(e)
	} else {
		line("job", j.Job)
		line("state", "never ran: the store does not know the job yet")
		if len(j.Schedules) > 0 {
			line("schedule", fmt.Sprintf("%s (%s, %s)", strings.Join(j.Schedules, " | "), j.words, j.Timezone))
			line("next", stampIn(j.Next, j.zone))
		}
	}
	if j.Last == nil && j.State != unregistered {
		line("last", "never ran")
	}
	if len(j.Installed) == 0 {
		line("installed", "in no target that this host knows of")
	}
	for _, p := range j.Installed {
		line("installed", p.Target+": "+strings.ReplaceAll(p.State, "_", " "))
		for _, en := range p.Entries {
			text := en.Entry
			if en.Where != "" {
				text += ", " + en.Where
			}
			if en.State != p.State || en.Reason != "" {
				text += ": " + strings.ReplaceAll(en.State, "_", " ")
			}
			if en.Reason != "" {
				text += ": " + en.Reason
			}
			line("", text)
		}
		if p.Manifest != "" {
			line("manifest", p.Manifest)
		}
	}
}
