package manifest

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

// The limits of version 1.
const (
	maxJobs      = 256
	maxSchedules = 64
	maxSecrets   = 8
)

// Compiled when they are first needed: together they cost half a millisecond, which a program
// that reads no manifest, such as dibs run, need not pay at each start.
var (
	namePattern   = pattern(`^[a-z][a-z0-9-]{0,62}$`)
	secretPattern = pattern(`^[a-zA-Z][a-zA-Z0-9_:./-]{0,127}$`)
	everyPattern  = pattern(`^@every[ \t]+[0-9]+[smh]$`)
)

func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

const nameWant = "a lower-case letter, then up to 62 of a-z, 0-9 and -"

// The fields of each object, version 1's first.
var (
	manifestFields = []string{"version", "app", "jobs", "defaults"}
	jobFields      = []string{"name", "schedule", "schedules", "timezone", "request", "policy", "auth", "command", "dir", "env", "dst"}
	defaultFields  = []string{"policy", "timezone", "request", "dst"}
	authFields     = []string{"secret_refs"}
)

// defaults are the three objects that jobs inherit from.
type defaults struct{ self, policy, request fields }

func (r *reader) manifest(root *node) *Manifest {
	top := r.object(field{"", root.at, root}, manifestFields...)
	if root.kind != object {
		return nil
	}
	if version := top.get("version"); !version.present() {
		r.fail(version, "it is missing: want %d", Version)
	} else {
		r.integer(version, limits{lo: Version, hi: Version}, Version)
	}
	m := &Manifest{App: r.name(top.get("app"))}
	r.app = m.App
	d := r.defaults(top.get(defaultsPath))
	jobs := top.get("jobs")
	if !jobs.present() {
		r.fail(jobs, "it is missing: want a list of jobs")
	}
	for _, f := range r.items(jobs, 1, maxJobs) {
		if r.is(f, object) {
			m.Jobs = append(m.Jobs, r.job(f, d))
			m.Jobs[len(m.Jobs)-1].App = m.App
		}
	}
	return m
}

func (r *reader) name(f field) string {
	s, ok := r.required(f, nameWant)
	if ok && !namePattern().MatchString(s) {
		r.fail(f, "%q: want %s", s, nameWant)
		return ""
	}
	return s
}

// defaults are checked by themselves, within the widest limits, whether or not a job inherits
// them.
func (r *reader) defaults(f field) defaults {
	self := r.object(f, defaultFields...)
	d := defaults{
		self:    self,
		policy:  r.object(self.get("policy"), policyFields...),
		request: r.object(self.get("request"), "headers"),
	}
	r.retryFields(d.policy)
	r.policy(true, true, d.policy)
	r.zone(self.get("timezone"))
	r.dst(self.get("dst"))
	r.headers(d.request)
	return d
}

func (r *reader) job(f field, d defaults) job.Spec {
	o := r.object(f, jobFields...)
	s := job.Spec{Name: r.name(o.get("name"))}
	if first, twice := r.names[s.Name]; twice {
		r.fail(o.get("name"), "%q is the name of %s as well: names are unique", s.Name, first)
	} else if s.Name != "" {
		r.names[s.Name] = f.path
	}
	r.heir = s.Name
	defer func() { r.heir = "" }()

	r.work(o, d, &s)
	own := r.object(o.get("policy"), policyFields...)
	r.retryFields(own)
	policies := []fields{own, d.policy}
	s.DST = r.dst(inherit("dst", o, d.self))
	rules := schedule.Options{Name: (&job.Spec{App: r.app, Name: s.Name}).Key(), DST: schedule.DST(s.DST)}
	wide := s.Command != nil || r.added(policies) || s.DST != job.DSTVixie || r.extended(o, rules)
	s.Policy = r.policy(s.Command != nil, wide, policies...)
	s.ScopeDeclared = inherit("concurrency_scope", policies...).present()
	s.Timezone = r.zone(inherit("timezone", o, d.self))
	s.Schedules = r.schedules(o, rules, wide)
	s.Secrets = r.secrets(r.object(o.get("auth"), authFields...))
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

func (r *reader) dst(f field) job.DST { return enum(r, f, job.DSTVixie, job.ParseDST) }

// extended says whether one of a job's expressions is of a dialect that version 1 does not have.
func (r *reader) extended(o fields, rules schedule.Options) bool {
	places := []field{o.get("schedule")}
	if several := o.get("schedules"); several.present() {
		places = (&reader{}).items(several, 1, maxSchedules) // schedules tells of errors
	}
	return slices.ContainsFunc(places, func(f field) bool {
		expr, _ := (&reader{}).text(f)
		s, err := rules.Parse(expr)
		return err == nil && s.Extended()
	})
}

func (r *reader) schedules(o fields, rules schedule.Options, wide bool) (all []string) {
	one, several := o.get("schedule"), o.get("schedules")
	if one.present() == several.present() {
		r.fail(o.whole(), "want either schedule, one expression, or schedules, a list of them")
	}
	places := r.items(several, 1, maxSchedules)
	if one.present() {
		places = append(places, one)
	}
	for _, f := range places {
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
		r.fail(f, "%q: the zone of a job is said in its timezone", expr)
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

func (r *reader) secrets(auth fields) (refs []string) {
	// An empty list is what the canonical form writes of a job without secrets.
	for _, f := range r.items(auth.get("secret_refs"), 0, maxSecrets) {
		s, ok := r.text(f)
		if ok && !secretPattern().MatchString(s) {
			r.fail(f, "%q: want a letter, then up to 127 letters, digits and _ : . / -", s)
		}
		refs = append(refs, s)
	}
	return refs
}

// sortedKeys makes the order of errors, and of what is printed, the same every time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
