package manifest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

var everyPattern = pattern(`^@every[ \t]+[0-9]+[smh]$`)

// defaults are the objects that jobs inherit from, and the headers, read once.
type defaults struct {
	self, policy fields
	headers      map[string]string
	hooks        []job.Hook
}

func (r *reader) manifest(root *node) *Manifest {
	whole := field{"", root.at, root}
	top := fieldsOf(whole)
	self := top.object(defaultsPath)
	r.inherits = self.count(widening) > 0
	r.app, _ = r.text(top.get("app"))
	r.defaults = defaults{self: self, policy: self.object("policy")}
	r.check(whole, described().manifest)

	r.inheritance()
	m := &Manifest{}
	m.App, _ = r.text(top.get("app"))
	r.places["app"] = top.get("app").at
	jobs := items(top.get("jobs"))
	for _, f := range jobs[:min(len(jobs), maxJobs)] {
		m.Jobs = append(m.Jobs, r.job(f))
		m.Jobs[len(m.Jobs)-1].App = m.App
	}
	return m
}

// inheritance checks the defaults by themselves, whether or not a job inherits them.
func (r *reader) inheritance() {
	d := &r.defaults
	r.retries(d.policy.object("retries"), fields{}, job.DefaultPolicy(false).Retries)
	r.zone(d.self.get("timezone"))
	d.headers = r.headers(d.self.object("request"))
	d.hooks = r.hooks(d.self.get("hooks"))
}

// variant is the shape of a job: a command's or a task's, a request's, or a version 1 request's.
func (r *reader) variant(f field) *shape {
	d, o := described(), fieldsOf(f)
	r.loose = r.inherits || slices.ContainsFunc(expressions(o), func(f field) bool { return plainRule.wrong(f.node.text) != "" })
	switch {
	case o.get("command").present(), o.get("task").present():
		return d.job
	case added(d.job, o, r.defaults.self), added(d.job.prop("policy"), o.object("policy"), r.defaults.policy), r.extended(o):
		return d.requestJob
	}
	return d.version1Job
}

// added reports whether an object uses a field of ours: has, or inherits, a value there other than the default,
// which the canonical form leaves out.
func added(of *shape, own, standard fields) bool {
	for _, p := range of.props {
		f := inherit(p.name, own, standard)
		if p.shape.addition && f.present() && p.shape.wrong(f.node) == "" && !p.shape.usual(f.node) {
			return true
		}
	}
	return false
}

// extended reports whether one of a job's expressions is of a dialect that version 1 does not have.
func (r *reader) extended(o fields) bool {
	rules := r.rules(o)
	return slices.ContainsFunc(expressions(o), func(f field) bool {
		if f.node.kind != text {
			return false
		}
		s, err := rules.Parse(strings.TrimSpace(f.node.text))
		return err == nil && s.Extended()
	})
}

// rules are what the meaning of a job's expressions depends on.
func (r *reader) rules(o fields) schedule.Options {
	name, _ := r.text(o.get("name"))
	return schedule.Options{Name: (&job.Spec{App: r.app, Name: name}).Key(), DST: schedule.DST(r.dst(o))}
}

func (r *reader) dst(o fields) job.DST {
	return word(r, inherit("dst", o, r.defaults.self), job.DSTVixie)
}

// expressions are those of a job, in either form.
func expressions(o fields) []field {
	several := items(o.get("schedules"))
	places := several[:min(len(several), maxSchedules)]
	if one := o.get("schedule"); one.present() {
		places = append(places, one)
	}
	return places
}

func (r *reader) job(f field) job.Spec {
	o, of := fieldsOf(f), r.variant(f)
	s := job.Spec{}
	s.Name, _ = r.text(o.get("name"))
	r.places[o.get("name").path] = o.get("name").at
	if first, twice := r.names[s.Name]; twice {
		r.fail(o.get("name"), "%q is also the name of %s: names are unique", s.Name, first)
	} else if s.Name != "" {
		r.names[s.Name] = f.path
	}
	r.heir = s.Name
	defer func() { r.heir = "" }()

	r.work(o, &s)
	own := o.object("policy")
	s.Policy = r.policy(&s, of.prop("policy"), own, r.defaults.policy)
	s.ScopeDeclared = inherit("concurrency_scope", own, r.defaults.policy).present()
	s.Timezone = r.zone(inherit("timezone", o, r.defaults.self))
	s.DST = r.dst(o)
	s.Schedules = r.schedules(o, of != described().version1Job)
	for _, ref := range items(o.object("auth").get("secret_refs")) {
		secret, _ := r.text(ref)
		s.Secrets = append(s.Secrets, secret)
	}
	return s
}

func (r *reader) zone(f field) string {
	name, ok := r.text(f)
	if !ok {
		return "UTC"
	}
	if _, err := schedule.LoadZone(name); err != nil {
		r.fail(f, "%v", err)
	}
	return name
}

func (r *reader) schedules(o fields, wide bool) (all []string) {
	rules := r.rules(o)
	for _, f := range expressions(o) {
		if expr, ok := r.text(f); ok {
			expr = strings.TrimSpace(expr)
			r.schedule(f, expr, rules, wide)
			all = append(all, expr)
		}
	}
	return all
}

func (r *reader) schedule(f field, expr string, rules schedule.Options, wide bool) {
	s, err := rules.Parse(expr)
	switch every := strings.HasPrefix(expr, "@every"); {
	case strings.HasPrefix(expr, "CRON_TZ="):
		r.fail(f, "%q: set the zone of a job in its timezone", expr)
	case err != nil:
		r.fail(f, "%v", err)
	case every && !wide && !everyPattern().MatchString(expr):
		r.fail(f, "%q: want one whole number and s, m or h, such as @every 90m%s", expr, widen)
	case !wide && len(strings.Fields(expr)) > 5:
		r.fail(f, "%q: want five fields%s", expr, widen)
	case every && !wide && s.Period() < time.Minute:
		r.fail(f, "%q: want at least 60s%s", expr, widen)
	}
}

// sortedKeys makes the order of errors, and of what is printed, the same every time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
