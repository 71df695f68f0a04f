package doctor

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A Setting is what a manifest's jobs meet on this host.
type Setting struct {
	// Manifest is its name and Store the store's; Shared says whether that reaches beyond this host.
	Manifest, Store string
	Shared          bool
	// OnlyHost: it reaches one host, and is declared to be the only one's.
	OnlyHost bool
	// Now is when schedules are looked at from.
	Now time.Time
	// Registered are the jobs that the place of each scope holds. A scope whose place could not be
	// read is missing.
	Registered map[job.Scope][]tick.Job
	// NoQueue names the store of each scope that is known to keep no queues.
	NoQueue map[job.Scope]string
	// Secret reads a reference, Program looks for a command's program, and User for whom it runs as.
	Secret  func(ref string) error
	Program func(job.Command) error
	User    func(job.Command) error
	// Way reads what says which way a request goes: its proxy, and the files of its tls.
	Way func(job.Request) error
}

// Invalid are the findings of a manifest that cannot be loaded.
func Invalid(where string, err error) (all []Finding) {
	const check, cure = "manifest", "docs/reference/manifest.md has every field; `dibs validate` reports the same."
	var list manifest.Errors
	if !errors.As(err, &list) {
		return []Finding{found(Error, check, where, cure, "It cannot be loaded: %v", err)}
	}
	for _, e := range list {
		all = append(all, found(Error, check, where+" "+e.Path, cure, "%s", e.Message))
	}
	return all
}

// Granted says what an application may name in its manifest.
func Granted(where, origin, grants string) Finding {
	return found(Info, "grants", where, "", "This application may use, beside its own origin %s: %s.", origin, grants)
}

// AppUnsaid says that an application chose its app by itself.
func AppUnsaid(where, app string) Finding {
	return found(Warning, "app", where, "Name its app: --app "+app+", on every server.",
		"No --app fixes the app of this application. Its app is %q now, and it may take any app that nobody else has registered.",
		app)
}

// Jobs judges the jobs of a manifest.
func Jobs(specs []job.Spec, s Setting) (all []Finding) {
	all = append(all, s.foreign(specs)...)
	for i := range specs {
		spec := &specs[i]
		set, err := scheduler.SetOf(spec)
		if err != nil { // the manifest's own validation has parsed it
			all = append(all, found(Error, "manifest", s.where(spec), "", "Its schedule: %v", err))
			continue
		}
		all = append(all, s.scope(spec)...)
		all = append(all, s.bounds(spec, set)...)
		all = append(all, s.gap(spec, set)...)
		all = append(all, s.coincide(spec, set)...)
		all = append(all, s.registered(spec)...)
		all = append(all, s.needs(spec)...)
		all = append(all, s.hooks(spec)...)
	}
	return all
}

func (s Setting) where(spec *job.Spec) string { return s.Manifest + " " + spec.Key() }

// scope says who runs a job (promise 12), and refuses what dibs serve refuses.
func (s Setting) scope(spec *job.Spec) []Finding {
	const check = "scope"
	where := s.where(spec)
	switch global := spec.Policy.Scope == job.Global; {
	case global && !s.Shared && s.OnlyHost:
		return []Finding{found(Info, check, where, "", "This host runs each tick (scope global): the store's address declares that there is no other host.")}
	case global && !s.Shared:
		return []Finding{found(Error, check, where, "Name a shared store with --store or DIBS_STORE, make it concurrency_scope: host, or declare with ?reach=only-host on the store that there is no other host.",
			"It is global, and %s reaches only this host: dibs serve refuses it.", s.Store)}
	case global:
		return []Finding{found(Info, check, where, "", "One server of the fleet runs each tick (scope global).")}
	case !spec.ScopeDeclared && s.Shared:
		return []Finding{found(Warning, check, where, "Set concurrency_scope: global (one server runs each tick) or host, in the job or in defaults; or use dibs serve --default-scope.",
			"It has no concurrency_scope. In version 1 this means that EVERY server runs each tick; on a shared store dibs serve refuses it.")}
	}
	return []Finding{found(Info, check, where, "", "EVERY server runs each tick (scope host), whatever the store.")}
}

// bounds looks at how long a run may take.
func (s Setting) bounds(spec *job.Spec, set schedule.Set) (all []Finding) {
	p, where := spec.Policy, s.where(spec)
	longest, name := p.Timeout, "timeout"
	if p.Deadline > 0 && (p.Retries.MaxAttempts > 1 || p.Timeout == 0) {
		longest, name = p.Deadline, "deadline"
	}
	if period := set.Period(); p.Concurrency == job.Forbid && period > 0 && longest > period {
		all = append(all, found(Warning, "timeout", where, "Shorten the "+name+" to less than that, or choose concurrency: Wait or Replace.",
			"Its %s of %s is longer than the %s between its ticks: one slow run makes dibs skip the next ticks.", name, longest, period))
	}
	if p.Retries.MaxAttempts <= 1 && p.Timeout == 0 && p.Deadline == 0 {
		what := "It has one attempt and neither timeout nor deadline: a run that hangs goes on forever"
		if p.Concurrency == job.Forbid || p.Concurrency == job.Wait {
			what += ", and no tick runs after it"
		}
		all = append(all, found(Warning, "unbounded", where, "Set policy.timeout_seconds to more than it ever takes.", "%s.", what))
	}
	return all
}

// coincide tells of two schedules of a job that are due together: that is one tick.
func (s Setting) coincide(spec *job.Spec, set schedule.Set) (all []Finding) {
	members := set.Schedules()
	for i, a := range members {
		for _, b := range members[i+1:] {
			if at, ok := together(a, b, s.Now); ok {
				all = append(all, found(Info, "coincide", s.where(spec), "", "Its schedules %q and %q are both due at %s: that is one tick, and runs once.", a, b, at.Format(time.RFC3339)))
			}
		}
	}
	return all
}

// together is the next instant at which both are due, within a year and a bounded search.
func together(a, b *schedule.Schedule, now time.Time) (time.Time, bool) {
	end := now.AddDate(1, 0, 1)
	x, ok := a.Next(now)
	y, both := b.Next(now)
	for range 100_000 {
		if !ok || !both || x.After(end) || y.After(end) {
			break
		}
		switch x.Compare(y) {
		case 0:
			return x, true
		case -1:
			x, ok = a.Next(y.Add(-time.Nanosecond))
		default:
			y, both = b.Next(x.Add(-time.Nanosecond))
		}
	}
	return time.Time{}, false
}

// foreign looks for an app that an application chose by itself and that is not its own (rule T14).
func (s Setting) foreign(specs []job.Spec) []Finding {
	if len(specs) == 0 {
		return nil
	}
	app, source := specs[0].App, specs[0].Source
	for _, scope := range []job.Scope{job.Global, job.Host} {
		if !slices.ContainsFunc(specs, func(spec job.Spec) bool { return slices.Contains(s.scopes(&spec), scope) }) {
			continue
		}
		var known []tick.Job
		for _, k := range s.Registered[scope] {
			if strings.HasPrefix(k.Name, app+"/") {
				known = append(known, k)
			}
		}
		if err := scheduler.CheckSource(app, source, known); err != nil {
			return []Finding{found(Error, "app_not_granted", s.Manifest,
				"If this application owns it: --app "+app+", on every server. If not, it claims another application's jobs.",
				"%s: %v: `dibs serve` refuses it.", s.Store, err)}
		}
	}
	return nil
}

// scopes are those that a job may have here. One that says no scope on a shared store has two meanings.
func (s Setting) scopes(spec *job.Spec) []job.Scope {
	switch {
	case s.OnlyHost: // where global means host
		return []job.Scope{job.Host}
	case !spec.ScopeDeclared && s.Shared:
		return []job.Scope{job.Global, job.Host}
	}
	return []job.Scope{spec.Policy.Scope}
}

// registered compares a job with what the store holds of it (rule T11). Of two meanings one must fit. Whose the app is
// is another question.
func (s Setting) registered(spec *job.Spec) []Finding {
	differs := false
	for _, scope := range s.scopes(spec) {
		meant := *spec
		meant.Policy.Scope = scope
		for _, k := range s.Registered[scope] {
			if k.Name != spec.Key() || !k.Removed.IsZero() {
				continue
			}
			if k.Definition == scheduler.DefinitionKeepingSource(&meant, k) {
				return nil
			}
			differs = true
		}
	}
	if !differs {
		return nil
	}
	return []Finding{found(Error, "manifest_differs", s.where(spec), "Load the same manifest on every server: the latest load wins, and servers with another definition do not run this job (rule T11).",
		"The store has another definition of it (schedules, zone or policy) than this manifest.")}
}

// Ahead are the findings of registered jobs that are settled ahead of the store's clock.
func Ahead(where string, known []tick.Job, now time.Time) (all []Finding) {
	for _, k := range known {
		if words := scheduler.AheadText(k, now); words != "" {
			all = append(all, found(Error, "settled-ahead", where+" "+k.Name,
				"Make sure that the store's clock is right and stays right, and that a server serves the job: the server corrects this by itself. A tick that has run does not run again.",
				"It is %s.", words))
		}
	}
	return all
}

// needs looks for what the job needs on this host.
func (s Setting) needs(spec *job.Spec) (all []Finding) {
	where := s.where(spec)
	refs := slices.Clone(spec.Secrets)
	if spec.Command != nil {
		refs = append(refs, slices.Sorted(maps.Values(spec.Command.EnvFrom))...)
	}
	for _, ref := range refs {
		if err := s.Secret(ref); err != nil {
			all = append(all, found(Error, "secret", where, "Set it on this host, or correct the reference; without it dibs serve refuses the manifest.", "A secret cannot be read: %v.", err))
		}
	}
	if at, none := s.NoQueue[spec.Policy.Scope]; none && spec.Task != nil {
		all = append(all, found(Error, "queue", where, "Name a store that has queues (docs/reference/stores.md), or make it concurrency_scope: host, which enqueues into each host's own directory; dibs serve refuses the manifest until then.",
			"It enqueues a task, and %s has no queues.", at))
	}
	if spec.Request != nil {
		if err := s.Way(*spec.Request); err != nil {
			all = append(all, found(Error, "request", where, "Put the file on this host, or correct the manifest; without it dibs serve refuses the manifest.", "Its request cannot be sent from here: %v.", err))
		}
	}
	if c := spec.Command; c != nil && (c.User != "" || c.Group != "") {
		if err := s.User(*c); err != nil {
			all = append(all, found(Error, "user", where, "Create that user here, or correct the manifest; without the user dibs serve refuses the manifest.", "This host does not know the command's user: %v.", err))
		}
	}
	if spec.When != nil {
		when := *spec.When
		if c := spec.Command; c != nil { // which it runs as
			when.Dir, when.Env = c.Dir, c.Env
		}
		if err := s.Program(when); err != nil {
			all = append(all, found(Warning, "program", where, "Install it on this host, or name it by its absolute path.", "Its condition (when) would not start here: %v. None of its ticks would run here.", err))
		}
	}
	if spec.Command != nil {
		if err := s.Program(*spec.Command); err != nil {
			all = append(all, found(Warning, "program", where, "Install it on this host, or name it by its absolute path.", "Its command would not start here: %v.", err))
		}
	}
	return all
}
