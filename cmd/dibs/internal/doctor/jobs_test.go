package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/tick"
)

// healthy is a job of which there is nothing to say but who runs it.
func healthy(change func(*job.Spec)) job.Spec {
	s := job.Spec{App: "shop", Name: "a", Schedules: []string{"15 4 * * *"}, Timezone: "Europe/Berlin", ScopeDeclared: true,
		Command: &job.Command{Args: []string{"true"}}, Policy: job.DefaultPolicy(true)}
	s.Policy.Scope, s.Policy.Timeout = job.Global, time.Hour
	if change != nil {
		change(&s)
	}
	return s
}

func setting(change func(*doctor.Setting)) doctor.Setting {
	s := doctor.Setting{Manifest: "jobs.yaml", Store: "redis://cache", Shared: true, Now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		Secret: func(string) error { return nil }, Program: func(job.Command) error { return nil }, User: func(job.Command) error { return nil }, Way: func(job.Request) error { return nil }}
	if change != nil {
		change(&s)
	}
	return s
}

var checks = []string{"scope", "timeout", "unbounded", "dst-gap", "coincide", "manifest_differs", "app_not_granted", "secret", "program", "user", "request", "hook", "queue"}

// Each check of a job with its trigger; all others must then be silent.
// Holds: promises 12, 25.
func TestJobs(t *testing.T) {
	registered := func(d job.Spec, scope job.Scope) func(*doctor.Setting) {
		return func(s *doctor.Setting) {
			s.Registered = map[job.Scope][]tick.Job{scope: {{Name: "shop/b", Definition: "else"}, {Name: "shop/a", Definition: d.Definition()}}}
		}
	}
	for _, c := range []struct {
		name    string
		spec    func(*job.Spec)
		setting func(*doctor.Setting)
		check   string
		want    doctor.Severity
		says    string
	}{
		{"healthy", nil, nil, "scope", doctor.Info, "One server of the fleet"},
		{"scope host", func(s *job.Spec) { s.Policy.Scope = job.Host }, nil, "scope", doctor.Info, "EVERY server runs each tick"},
		{"no scope on a shared store", func(s *job.Spec) { s.Policy.Scope, s.ScopeDeclared = job.Host, false }, nil, "scope", doctor.Warning, "EVERY server"},
		{"no scope in a directory", func(s *job.Spec) { s.Policy.Scope, s.ScopeDeclared = job.Host, false }, func(s *doctor.Setting) { s.Shared = false }, "scope", doctor.Info, "EVERY server"},
		{"global in a directory", nil, func(s *doctor.Setting) { s.Shared = false }, "scope", doctor.Error, "reaches only this host"},

		{"timeout beyond the interval", func(s *job.Spec) { s.Policy.Timeout = 25 * time.Hour }, nil, "timeout", doctor.Warning, "25h0m0s is longer than the 24h0m0s"},
		{"timeout of the interval", func(s *job.Spec) { s.Policy.Timeout = 24 * time.Hour }, nil, "", "", ""},
		{"the same under Wait", func(s *job.Spec) { s.Policy.Timeout, s.Policy.Concurrency = 25*time.Hour, job.Wait }, nil, "", "", ""},
		{"deadline of retries", func(s *job.Spec) { s.Policy.Deadline, s.Policy.Retries.MaxAttempts = 25*time.Hour, 3 }, nil, "timeout", doctor.Warning, "deadline of 25h"},
		{"deadline alone", func(s *job.Spec) { s.Policy.Timeout, s.Policy.Deadline = 0, 25*time.Hour }, nil, "timeout", doctor.Warning, "deadline of 25h"},
		{"no bound", func(s *job.Spec) { s.Policy.Timeout = 0 }, nil, "unbounded", doctor.Warning, "no tick runs after it"},
		{"no bound, and Allow", func(s *job.Spec) { s.Policy.Timeout, s.Policy.Concurrency = 0, job.Allow }, nil, "unbounded", doctor.Warning, "forever."},
		{"a deadline is a bound", func(s *job.Spec) { s.Policy.Timeout, s.Policy.Deadline = 0, time.Hour }, nil, "", "", ""},

		{"in the gap", func(s *job.Spec) { s.Schedules = []string{"30 2 * * *"} }, nil, "dst-gap", doctor.Info, "due at 02:30, a time that does not exist in Europe/Berlin on 2027-03-28: the clock jumps from 02:00 to 03:00. The job runs once, at 2027-03-28T01:00:00Z"},
		{"in the gap, left out", func(s *job.Spec) { s.Schedules, s.DST = []string{"30 2 * * *"}, "skip" }, nil, "dst-gap", doctor.Info, "With dst: skip it is not due on that day"},
		{"hashed into the gap", func(s *job.Spec) { s.Schedules = []string{"H 2 * * *"} }, nil, "dst-gap", doctor.Info, "The job runs once"},
		{"on another day", func(s *job.Spec) { s.Schedules = []string{"30 2 1 * *"} }, nil, "", "", ""},
		{"elapsed time", func(s *job.Spec) { s.Schedules = []string{"*/30 * * * *"}; s.Policy.Timeout = time.Minute }, nil, "", "", ""},
		{"no daylight saving", func(s *job.Spec) { s.Schedules, s.Timezone = []string{"30 2 * * *"}, "Asia/Tokyo" }, nil, "", "", ""},
		{"the other hemisphere", func(s *job.Spec) { s.Schedules, s.Timezone = []string{"30 2 * * *"}, "Australia/Sydney" }, nil, "dst-gap", doctor.Info, "on 2027-10-03"},

		{"coinciding", func(s *job.Spec) { s.Schedules = []string{"15 4 * * *", "15 4 1 * *"} }, nil, "coincide", doctor.Info, "both due at 2026-12-01T03:15:00Z"},
		{"never together", func(s *job.Spec) {
			s.Schedules = []string{"15 4 * * *", "16 4 * * *"}
			s.Policy.Timeout = 30 * time.Second
		}, nil, "", "", ""},

		{"as registered", nil, registered(healthy(nil), job.Global), "", "", ""},
		{"another definition", nil, registered(healthy(func(s *job.Spec) { s.Timezone = "UTC" }), job.Global), "manifest_differs", doctor.Error, "another definition"},
		{"another one on this host only", nil, registered(healthy(func(s *job.Spec) { s.Timezone = "UTC" }), job.Host), "", "", ""},
		{"another one that was removed", nil, func(s *doctor.Setting) {
			s.Registered = map[job.Scope][]tick.Job{job.Global: {{Name: "shop/a", Definition: "else", Removed: s.Now}}}
		}, "", "", ""},

		{"a secret that is missing", func(s *job.Spec) { s.Secrets = []string{"env:A"} }, func(s *doctor.Setting) {
			s.Secret = func(ref string) error { return errors.New(ref + " is empty") }
		}, "secret", doctor.Error, "env:A is empty"},
		{"a secret that is there", func(s *job.Spec) { s.Secrets = []string{"env:A"} }, nil, "", "", ""},
		{"a program that is missing", nil, func(s *doctor.Setting) {
			s.Program = func(c job.Command) error { return errors.New(c.Args[0] + ": not found") }
		}, "program", doctor.Warning, "true: not found"},
		{"a variable's secret that is missing", func(s *job.Spec) { s.Command.EnvFrom = map[string]string{"PASSWORD": "file:/p"} }, func(s *doctor.Setting) {
			s.Secret = func(ref string) error { return errors.New(ref + " is empty") }
		}, "secret", doctor.Error, "file:/p is empty"},
		{"a certificate that is missing", func(s *job.Spec) {
			s.Command, s.Request = nil, &job.Request{URL: "https://h/", TLS: &job.TLS{CAFile: "/ca"}}
		}, func(s *doctor.Setting) {
			s.Way = func(r job.Request) error { return errors.New(r.TLS.CAFile + ": no such file") }
		}, "request", doctor.Error, "/ca: no such file"},
		{"a hook's certificate that is missing", func(s *job.Spec) {
			s.Hooks = []job.Hook{{On: []job.HookEvent{job.OnStart}, Ping: &job.Request{URL: "https://h/", TLS: &job.TLS{CAFile: "/ca"}}}}
		}, func(s *doctor.Setting) {
			s.Way = func(r job.Request) error { return errors.New(r.TLS.CAFile + ": no such file") }
		}, "request", doctor.Error, "Its hook 1 cannot be sent from here: /ca: no such file"},
		{"a global job on the only host", nil, func(s *doctor.Setting) { s.Shared, s.OnlyHost = false, true }, "scope", doctor.Info, "This host runs each tick (scope global)"},
		{"a global job on the only host, whose definition is another one", nil, func(s *doctor.Setting) {
			s.Shared, s.OnlyHost = false, true
			registered(healthy(func(d *job.Spec) { d.Policy.Scope, d.Schedules = job.Host, []string{"@daily"} }), job.Host)(s)
		}, "manifest_differs", doctor.Error, "another definition"},
		{"a global job on the only host, as it is registered", nil, func(s *doctor.Setting) {
			s.Shared, s.OnlyHost = false, true
			registered(healthy(func(d *job.Spec) { d.Policy.Scope = job.Host }), job.Host)(s)
		}, "", "", ""},
		{"a store without queues", func(s *job.Spec) { s.Command, s.Task = nil, &job.Task{Kind: "k", Queue: "q"} }, func(s *doctor.Setting) {
			s.NoQueue = map[job.Scope]string{job.Global: "redis://cache"}
		}, "queue", doctor.Error, "It enqueues a task, and redis://cache has no queues"},
		{"queues elsewhere", func(s *job.Spec) { s.Command, s.Task = nil, &job.Task{Kind: "k", Queue: "q"} }, func(s *doctor.Setting) {
			s.NoQueue = map[job.Scope]string{job.Host: "redis://cache"}
		}, "", "", ""},
		{"nothing to enqueue", nil, func(s *doctor.Setting) { s.NoQueue = map[job.Scope]string{job.Global: "redis://cache"} }, "", "", ""},
		{"a user that is missing", func(s *job.Spec) { s.Command.User = "nobody-here" }, func(s *doctor.Setting) {
			s.User = func(c job.Command) error { return errors.New("no user " + c.User) }
		}, "user", doctor.Error, "no user nobody-here"},
		{"a hook's program that is missing", func(s *job.Spec) {
			s.Hooks = []job.Hook{{On: []job.HookEvent{job.OnStart}, Ping: &job.Request{URL: "http://h/"}}, {On: []job.HookEvent{job.OnStart}, Command: &job.Command{Args: []string{"page"}}}}
		}, func(s *doctor.Setting) {
			s.Program = func(c job.Command) error {
				if c.Args[0] == "page" {
					return errors.New("page: not found")
				}
				return nil
			}
		}, "program", doctor.Warning, "hook 2 would not start here: page: not found"},
		{"a condition's program that is missing", func(s *job.Spec) { s.When, s.Command.Dir = &job.Command{Args: []string{"./ask"}}, "/srv" }, func(s *doctor.Setting) {
			s.Program = func(c job.Command) error {
				if c.Args[0] == "./ask" && c.Dir == "/srv" {
					return errors.New("./ask: not found")
				}
				return nil
			}
		}, "program", doctor.Warning, "Its condition (when) would not start here: ./ask: not found"},
		{"a hook that is never told", func(s *job.Spec) {
			s.Policy.Timeout = time.Minute
			s.Hooks = []job.Hook{{On: []job.HookEvent{job.OnTooLong}, Ping: &job.Request{URL: "http://h/"}, TooLong: time.Minute}}
		}, nil, "hook", doctor.Warning, "no run takes longer than 1m0s"},
		{"a hook that may be told", func(s *job.Spec) {
			s.Policy.Timeout = time.Minute
			s.Hooks = []job.Hook{{On: []job.HookEvent{job.OnTooLong}, Ping: &job.Request{URL: "http://h/"}, TooLong: time.Minute - time.Second}}
		}, nil, "", "", ""},
		{"a user that is there", func(s *job.Spec) { s.Command.Group = "www-data" }, nil, "", "", ""},
		{"a request has no program", func(s *job.Spec) { s.Command, s.Request = nil, &job.Request{} }, func(s *doctor.Setting) {
			s.Program = func(job.Command) error { return errors.New("not found") }
		}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := doctor.Jobs([]job.Spec{healthy(c.spec)}, setting(c.setting))
			for _, check := range checks {
				if check != c.check {
					for _, f := range all {
						if f.Check == check && (check != "scope" || f.Severity != doctor.Info) {
							t.Errorf("found as well: %+v", f)
						}
					}
					continue
				}
				if f := want(t, all, check, c.want); !strings.Contains(f.What, c.says) || f.Where != "jobs.yaml shop/a" {
					t.Errorf("%+v does not say %q", f, c.says)
				}
			}
		})
	}
}

// An application that chose its app by itself may have what nobody else has registered (rule T14); which of its jobs
// that concerns is no other finding.
// Holds: promise 25, T14.
func TestAnAppThatIsNotItsOwn(t *testing.T) {
	const own = "https://own.example/jobs"
	for _, c := range []struct {
		name, source string
		known        map[string]string // of jobs, who registered them
		refused      string
	}{
		{"of nobody", own, nil, ""},
		{"of its own", own, map[string]string{"shop/a": own}, ""},
		{"of its own, beside another app", own, map[string]string{"shop/a": own, "shopping/a": ""}, ""},
		{"of another application", own, map[string]string{"shop/a": "https://b.example"},
			`own.example/jobs to have the app "shop", and shop/a is registered by "https://b.example"`},
		{"of the operator", own, map[string]string{"shop/a": own, "shop/b": ""},
			"and shop/b is registered by the operator"},
		{"granted", "", map[string]string{"shop/a": own}, ""},
	} {
		for _, declared := range []bool{true, false} {
			spec := healthy(func(s *job.Spec) { s.Source, s.ScopeDeclared = c.source, declared })
			all := doctor.Jobs([]job.Spec{spec}, setting(func(s *doctor.Setting) {
				s.Registered = map[job.Scope][]tick.Job{job.Host: {{Name: "apple/a", Definition: "else"}}}
				for name, source := range c.known {
					registered := healthy(func(s *job.Spec) { s.Source = source })
					known := tick.Job{Name: name, Definition: registered.Definition()}
					s.Registered[job.Global] = append(s.Registered[job.Global], known)
				}
			}))
			want(t, all, "manifest_differs", "")
			if c.refused == "" {
				want(t, all, "app_not_granted", "")
				continue
			}
			f := want(t, all, "app_not_granted", doctor.Error)
			if !strings.Contains(f.What, c.refused) || !strings.Contains(f.Cure, "--app shop") || f.Where != "jobs.yaml" {
				t.Errorf("%s: %+v does not say %q", c.name, f, c.refused)
			}
		}
	}
}

// A job without a scope on a shared store may have been loaded as either.
// Holds: promise 25.
func TestAJobWithoutScopeIsAsRegisteredInEitherScope(t *testing.T) {
	undeclared := healthy(func(s *job.Spec) { s.Policy.Scope, s.ScopeDeclared = job.Host, false })
	for _, scope := range []job.Scope{job.Global, job.Host} {
		loaded := healthy(func(s *job.Spec) { s.Policy.Scope = scope })
		for _, zone := range []string{"Europe/Berlin", "UTC"} {
			loaded.Timezone = zone
			all := doctor.Jobs([]job.Spec{undeclared}, setting(func(s *doctor.Setting) {
				s.Registered = map[job.Scope][]tick.Job{scope: {{Name: "shop/a", Definition: loaded.Definition()}}}
			}))
			if s := doctor.Severity(""); zone == "UTC" {
				want(t, all, "manifest_differs", doctor.Error)
			} else {
				want(t, all, "manifest_differs", s)
			}
		}
	}
}

// Each error of a manifest is a finding of its own, with its place.
// Holds: promise 25.
func TestInvalid(t *testing.T) {
	_, err := manifest.Load([]byte(`{"version":1,"app":"shop","jobs":[{"nam":"a"},{"name":"B"}]}`), "jobs.json")
	all := doctor.Invalid("jobs.json", err)
	if len(all) < 2 || doctor.Count(all, doctor.Error) != len(all) || !strings.HasPrefix(all[0].Where, "jobs.json jobs/0") {
		t.Errorf("%+v", all)
	}
	want(t, doctor.Invalid("jobs.json", errors.New("no such file")), "manifest", doctor.Error)
}

// Jobs that are settled ahead of the store's clock are found.
// Holds: promise 25.
func TestJobsThatAreSettledAheadOfTheClock(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	all := doctor.Ahead("redis://cache", []tick.Job{{Name: "shop/a", Mark: now.Add(time.Hour)}, {Name: "shop/b", Mark: now},
		{Name: "shop/c", Mark: now.Add(time.Hour), Removed: now}, {Name: "shop/d", Mark: now.Add(time.Second)}}, now)
	if len(all) != 1 || all[0].Severity != doctor.Error || all[0].Where != "redis://cache shop/a" || !strings.Contains(all[0].What, "1h0m0s ahead of the store's clock") {
		t.Errorf("the findings are %+v", all)
	}
}
