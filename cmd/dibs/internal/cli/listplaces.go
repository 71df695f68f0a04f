package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/applied"
	"github.com/dibs-run/dibs/deploy/crontab"
	"github.com/dibs-run/dibs/deploy/systemd"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// compareTime bounds what is asked of one target and its manifest, which may be far away.
const compareTime = 20 * time.Second

// A placement is one target that a job is installed in, or should be; its JSON form is stable.
type placement struct {
	Target string `json:"target"`
	To     string `json:"to,omitempty"` // as for dibs apply
	// Manifest is what the target was compared with; empty: nothing is known.
	Manifest string `json:"manifest,omitempty"`
	// State is the worst of the entries'.
	State   string        `json:"state"`
	Entries []placedEntry `json:"entries"`
}

type placedEntry struct {
	Entry  string `json:"entry"`
	Where  string `json:"where,omitempty"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// The states of entries, the best first.
const (
	placedInSync   = "in_sync"
	placedUnedited = "unedited"
	placedOutdated = "outdated"
	placedStale    = "stale"
	placedEdited   = "edited"
	placedMissing  = "missing"
	placedBroken   = "broken"
	placedUnknown  = "unknown"
)

var placedOrder = []string{placedInSync, placedUnedited, placedOutdated, placedStale, placedEdited, placedMissing, placedBroken, placedUnknown}

// stateOf is what a step of a plan of apply says of an entry.
var stateOf = map[deploy.Action]string{
	deploy.Unchanged: placedInSync, deploy.Create: placedMissing, deploy.Update: placedOutdated, deploy.Rerender: placedOutdated,
	deploy.Edited: placedEdited, deploy.Stale: placedStale,
}

// placesFound are the targets that were read.
type placesFound struct {
	at    map[string][]placement // by job
	specs map[string]*job.Spec
	// read are the targets, by their apps and names.
	read map[string]bool
	// unknown are the targets that cannot be read, by their apps; unfiled are those of them whose manifest cannot be
	// read either, so that their jobs have no names.
	unknown, unfiled map[string][]placement
	// stores are those that entries name.
	stores []string
}

// places reads the target that the flags name, or all that this host remembers and those at the usual places.
func (o *listOptions) places(ctx context.Context, e env) (*placesFound, error) {
	f := &placesFound{at: map[string][]placement{}, specs: map[string]*job.Spec{}, read: map[string]bool{},
		unknown: map[string][]placement{}, unfiled: map[string][]placement{}}
	if o.manifest != "" {
		all, w, err := o.prepare(ctx, e, o.manifest)
		if err == nil {
			f.compared(all[0].plan, w, o.to, w.from)
		}
		return f, err
	}
	records, err := recordsDir().All()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		fmt.Fprintf(e.stderr, "dibs: what dibs apply left on this host: %v\n", err)
	}
	for _, r := range records {
		f.remembered(ctx, e, r)
	}
	f.usual(ctx, e)
	return f, nil
}

// remembered compares a target with the manifest that apply was given there.
func (f *placesFound) remembered(ctx context.Context, e env, r applied.Record) {
	ctx, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	f.read[r.App+" "+r.Target] = true
	var all []planned
	var w wanted
	o, err := rememberedOptions(r)
	if err == nil {
		if o.store != "" && !slices.Contains(f.stores, o.store) {
			f.stores = append(f.stores, o.store)
		}
		underVariables(r.Env, func() { all, w, err = o.prepare(ctx, e, r.Manifest) })
	}
	if err == nil {
		err = moved(r, w.target.String())
	}
	if err == nil {
		f.compared(all[0].plan, w, r.To, r.Manifest)
		return
	}
	image, ierr := imageOf(ctx, r)
	if ierr != nil {
		f.unreadable(r, w, ierr)
		return
	}
	f.found(image, r.Target, r.To, "not compared: "+err.Error(), func(app string) bool { return app == r.App })
}

// unreadable adds that nothing is known of a target, for each job of its manifest.
func (f *placesFound) unreadable(r applied.Record, w wanted, err error) {
	p := placement{r.Target, r.To, r.Manifest, placedUnknown, []placedEntry{{Entry: r.App, State: placedUnknown, Reason: err.Error()}}}
	f.unknown[r.App] = append(f.unknown[r.App], p)
	if len(w.jobs) == 0 {
		f.unfiled[r.App] = append(f.unfiled[r.App], p)
	}
	for i := range w.jobs {
		f.add(w.jobs[i].Key(), p)
		f.specs[w.jobs[i].Key()] = &w.jobs[i]
	}
}

// file adds targets whose jobs have no names to the jobs of the app that a store knows, or else to a row of the app's
// own.
func (f *placesFound) file(known map[string]jobRecord) {
	for app, places := range f.unfiled {
		names := []string{app + "/"}
		for name, r := range known {
			if strings.HasPrefix(name, app+"/") && r.Removed.IsZero() {
				names = append(names, name)
			}
		}
		if len(names) > 1 {
			names = names[1:]
		}
		for _, name := range names {
			for _, p := range places {
				f.add(name, p)
			}
		}
	}
}

// reasons says why nothing is known of an app's targets.
func (f *placesFound) reasons(app string) error {
	var errs []error
	for _, p := range f.unknown[app] {
		errs = append(errs, fmt.Errorf("%s: unknown: %s", p.Target, p.Entries[0].Reason))
	}
	return errors.Join(errs...)
}

// compared adds what a plan of apply says.
func (f *placesFound) compared(p *deploy.Plan, w wanted, to, manifest string) {
	where, of := map[deploy.ID]string{}, map[string]*placement{}
	for _, i := range p.Installed() {
		where[i.ID] = i.Where
	}
	problems := map[deploy.ID][]string{}
	for _, x := range p.Problems {
		problems[x.ID] = append(problems[x.ID], x.Text)
	}
	for _, s := range p.Steps {
		name := s.ID.App + "/" + s.ID.Job
		at := of[name]
		if at == nil {
			at = &placement{Target: p.Target, To: to, Manifest: manifest, State: placedInSync, Entries: []placedEntry{}}
			of[name] = at
		}
		en := placedEntry{Entry: s.Entry, Where: where[s.ID], State: stateOf[s.Action], Reason: strings.TrimPrefix(strings.TrimPrefix(s.Reason, where[s.ID]), ": ")}
		if bad := problems[s.ID]; len(bad) > 0 && s.Action != deploy.Create {
			en.State, en.Reason = placedBroken, strings.Join(bad, "; ")
		}
		at.put(en)
	}
	for name, at := range of {
		f.add(name, *at)
	}
	for i := range w.jobs {
		f.specs[w.jobs[i].Key()] = &w.jobs[i]
	}
}

// put adds an entry; the placement is as good as its worst.
func (p *placement) put(en placedEntry) {
	p.Entries = append(p.Entries, en)
	if slices.Index(placedOrder, en.State) > slices.Index(placedOrder, p.State) {
		p.State = en.State
	}
}

func (f *placesFound) add(name string, p placement) {
	f.at[name] = append(f.at[name], p)
	slices.SortFunc(f.at[name], func(a, b placement) int { return cmp.Compare(a.Target, b.Target) })
}

// found adds the entries of a target whose manifest is not at hand. They can only be compared with their own marks.
func (f *placesFound) found(image deploy.Image, target, to, reason string, wants func(app string) bool) {
	of := map[string]*placement{}
	for _, i := range image.Installed() {
		if !wants(i.ID.App) {
			continue
		}
		name := i.ID.App + "/" + i.ID.Job
		if of[name] == nil {
			of[name] = &placement{Target: target, To: to, State: placedUnedited, Entries: []placedEntry{}}
		}
		en := placedEntry{Entry: i.ID.String(), Where: i.Where, State: placedUnedited, Reason: reason}
		if i.Edited() {
			en.State = placedEdited
		}
		of[name].put(en)
	}
	for name, at := range of {
		f.add(name, *at)
	}
}

// usual reads the places where entries usually are, for those that this host does not remember.
func (f *placesFound) usual(ctx context.Context, e env) {
	paths, _ := filepath.Glob("/etc/cron.d/dibs-*")
	for _, path := range append(paths, "/etc/crontab") {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		t, err := crontab.NewFile(path, crontab.Options{Path: crontab.DefaultPath})
		if err == nil {
			f.usualOne(ctx, e, t, "crontab:"+path)
		}
	}
	if _, err := os.Stat(systemd.SystemDir); err == nil {
		if t, err := systemd.New(systemd.Options{}); err == nil {
			f.usualOne(ctx, e, t, "systemd")
		}
	}
}

func (f *placesFound) usualOne(ctx context.Context, e env, t deploy.Target, to string) {
	image, err := t.Read(ctx)
	if err != nil {
		if !errors.Is(err, fs.ErrPermission) {
			fmt.Fprintf(e.stderr, "dibs: %s cannot be read: %v\n", t, err)
		}
		return
	}
	f.found(image, t.String(), to, "", func(app string) bool { return !f.read[app+" "+t.String()] })
}

// scheduled adds what a definition says.
func (r jobRecord) scheduled(j tick.Job, now time.Time) jobRecord {
	spec, set, err := scheduler.Registered(j)
	if err != nil {
		return r.unreadable(j, err)
	}
	r.Schedules, r.Timezone, r.Policy, r.words = spec.Schedules, spec.Timezone, &spec.Policy, set.Description()
	if zone, err := schedule.LoadZone(spec.Timezone); err == nil {
		r.zone = zone
	}
	r.Next, _ = set.Next(now)
	return r
}

// shownJobs are those that `dibs list` has: registered, or installed from this host.
func shownJobs(l *look) ([]string, error) {
	all, err := jobNames(l)
	records, rerr := recordsDir().All()
	for _, r := range records {
		declared, derr := l.declared(r.Manifest)
		all, rerr = append(all, declared...), cmp.Or(rerr, derr)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > 0 {
		return all, nil // also where the store is away
	}
	return nil, errors.Join(err, rerr)
}
