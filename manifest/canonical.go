package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/job"
)

// Canonical returns the manifest's only canonical spelling, byte for byte: JSON without white space and with every
// default of version 1 written out, jobs sorted by name, headers by key. It has no line end at the end.
//
// Fields that are not of version 1 are written only if they are used. A command, followed by dir and env, or a task
// replaces the request. Further fields of a policy follow the retries; those that have their default are left out.
// Defaults have become part of the jobs. Each concurrency_scope is written, so that the reader has nothing to
// decide. The canonical form is itself a manifest, with the same canonical form.
func (m *Manifest) Canonical() []byte {
	c := canonicalManifest{Version: Version, App: m.App, Jobs: []canonicalJob{}}
	for i := range m.Jobs {
		c.Jobs = append(c.Jobs, canonicalOf(&m.Jobs[i]))
	}
	slices.SortFunc(c.Jobs, func(a, b canonicalJob) int { return cmp.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		panic(err) // strings and numbers always marshal
	}
	return plainSeparators(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

type canonicalManifest struct {
	Version int            `json:"version"`
	App     string         `json:"app"`
	Jobs    []canonicalJob `json:"jobs"`
}

type canonicalJob struct {
	Name      string            `json:"name"`
	Schedules []string          `json:"schedules"`
	Timezone  string            `json:"timezone"`
	DST       *job.DST          `json:"dst,omitempty"`
	Request   *canonicalRequest `json:"request,omitempty"`
	Task      *canonicalTask    `json:"task,omitempty"`
	Command   any               `json:"command,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	Env       map[string]string `json:"env,omitempty"` // written by key
	EnvFrom   map[string]string `json:"env_from,omitempty"`
	User      string            `json:"user,omitempty"`
	Group     string            `json:"group,omitempty"`
	Umask     string            `json:"umask,omitempty"`
	Nice      int               `json:"nice,omitempty"`
	Sandbox   map[string]any    `json:"sandbox,omitempty"`
	Where     []string          `json:"environments,omitempty"`
	When      any               `json:"when,omitempty"`
	Hooks     []canonicalHook   `json:"hooks,omitempty"`
	Policy    canonicalPolicy   `json:"policy"`
	Auth      canonicalAuth     `json:"auth"`
}

type canonicalRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"` // written by key
	Body    string            `json:"body"`
	canonicalWay
}

type canonicalWay struct {
	Redirects job.Redirects `json:"redirects,omitempty"`
	Proxy     string        `json:"proxy,omitempty"`
	TLS       *canonicalTLS `json:"tls,omitempty"`
}

type canonicalTLS struct {
	CAFile     string `json:"ca_file,omitempty"`
	CertFile   string `json:"cert_file,omitempty"`
	KeyFile    string `json:"key_file,omitempty"`
	ServerName string `json:"server_name,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
}

type canonicalShell struct {
	Shell string `json:"shell"`
}

type canonicalPolicy struct {
	Concurrency job.Concurrency  `json:"concurrency"`
	Scope       job.Scope        `json:"concurrency_scope"`
	Timeout     int64            `json:"timeout_seconds"`
	Retries     canonicalRetries `json:"retries"`

	Deadline         *int64             `json:"deadline_seconds,omitempty"`
	CatchUp          *job.CatchUp       `json:"catch_up,omitempty"`
	CatchUpWindow    *int64             `json:"catch_up_window_seconds,omitempty"`
	OnCrash          *job.OnCrash       `json:"on_crash,omitempty"`
	StartingDeadline *int64             `json:"starting_deadline_seconds,omitempty"`
	StopGrace        *int64             `json:"stop_grace_seconds,omitempty"`
	Leftovers        *job.Leftovers     `json:"leftovers,omitempty"`
	OnLostRequest    *job.OnLostRequest `json:"on_lost_request,omitempty"`
	Jitter           *int64             `json:"jitter_seconds,omitempty"`
	Between          []string           `json:"between,omitempty"`
	UnlessBetween    []string           `json:"unless_between,omitempty"`
}

type canonicalRetries struct {
	MaxAttempts int   `json:"max_attempts"`
	Min         int64 `json:"min_seconds"`
	Max         int64 `json:"max_seconds"`
}

type canonicalAuth struct {
	SecretRefs []string `json:"secret_refs"`
}

func canonicalOf(s *job.Spec) canonicalJob {
	c := canonicalJob{
		Name:      s.Name,
		Schedules: append([]string{}, s.Schedules...),
		Timezone:  s.Timezone,
		DST:       unless(cmp.Or(s.DST, job.DSTVixie), job.DSTVixie),
		Policy:    canonicalPolicyOf(s.Policy, s.DefaultPolicy()),
		Auth:      canonicalAuth{append([]string{}, s.Secrets...)},
	}
	c.Where = s.Environments
	if s.When != nil {
		c.When = canonicalProgram(s.When)
	}
	c.Hooks = canonicalHooks(s.Hooks)
	switch {
	case s.Request != nil:
		headers := s.Request.Headers
		if headers == nil {
			headers = map[string]string{}
		}
		c.Request = &canonicalRequest{s.Request.Method, s.Request.URL, headers, s.Request.Body,
			canonicalWayOf(s.Request)}
	case s.Task != nil:
		c.Task = canonicalTaskOf(s.Task)
	case s.Command != nil:
		c.Command = canonicalProgram(s.Command)
		c.Dir, c.Env, c.EnvFrom = s.Command.Dir, s.Command.Env, s.Command.EnvFrom
		c.User, c.Group, c.Nice = s.Command.User, s.Command.Group, s.Command.Nice
		c.Sandbox = canonicalSandbox(s.Command.Sandbox)
		if s.Command.Umask != nil {
			c.Umask = fmt.Sprintf("%04o", *s.Command.Umask)
		}
	}
	return c
}

func canonicalWayOf(r *job.Request) canonicalWay {
	return canonicalWay{r.Redirects, r.Proxy, (*canonicalTLS)(r.TLS)}
}

// canonicalProgram is a command in one of its two forms.
func canonicalProgram(c *job.Command) any {
	if c.Shell != "" {
		return canonicalShell{c.Shell}
	}
	return c.Args
}

func canonicalPolicyOf(p, standard job.Policy) canonicalPolicy {
	return canonicalPolicy{
		Concurrency: p.Concurrency,
		Scope:       p.Scope,
		Timeout:     int64(p.Timeout / time.Second),
		Retries: canonicalRetries{
			p.Retries.MaxAttempts, int64(p.Retries.Min / time.Second), int64(p.Retries.Max / time.Second),
		},
		Deadline:         seconds(p.Deadline, standard.Deadline),
		CatchUp:          unless(p.CatchUp, standard.CatchUp),
		CatchUpWindow:    seconds(p.CatchUpWindow, standard.CatchUpWindow),
		OnCrash:          unless(p.OnCrash, standard.OnCrash),
		StartingDeadline: seconds(p.StartingDeadline, standard.StartingDeadline),
		StopGrace:        seconds(p.StopGrace, standard.StopGrace),
		Leftovers:        unless(p.Leftovers, standard.Leftovers),
		OnLostRequest:    unless(p.OnLostRequest, standard.OnLostRequest),
		Jitter:           seconds(p.Jitter, standard.Jitter),
		Between:          p.Between,
		UnlessBetween:    p.UnlessBetween,
	}
}

// unless is v, or nothing if it is the default.
func unless[T comparable](v, standard T) *T {
	if v == standard {
		return nil
	}
	return &v
}

func seconds(d, standard time.Duration) *int64 {
	return unless(int64(d/time.Second), int64(standard/time.Second))
}

// plainSeparators undoes the escape that encoding/json gives to U+2028 and U+2029 for the sake of
// JavaScript's old parsers, and that no other writer of canonical manifests makes.
func plainSeparators(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			out, i = append(out, "\u2028"...), i+5
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			out, i = append(out, "\u2029"...), i+5
		default: // a backslash is never the last byte
			out, i = append(out, b[i], b[i+1]), i+1
		}
	}
	return out
}
