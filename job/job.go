// Package job says what to run, when, and under which policies: typed, validated elsewhere, and
// a leaf that imports nothing of ours.
package job

import "time"

// A Spec is one job. Its Command, its Request, its Task or its Function says what to do; exactly one is set.
type Spec struct {
	App  string
	Name string
	// Source is the address of the application that chose App by itself; empty where the operator did: the manifest is
	// their own, or they said that the application speaks for App. It is part of the definition.
	Source string
	// Schedules are expressions of package schedule; the job is due when any of them is.
	Schedules []string
	// Timezone is the IANA name of the zone whose wall clock the schedules read.
	Timezone string
	// DST is what becomes of fixed times when the clocks of the zone change; empty is DSTVixie.
	DST     DST
	Command *Command
	Request *Request
	Task    *Task
	// Function is of one program, and no other can run it.
	Function *Function
	Policy   Policy
	// ScopeDeclared is whether somebody said Policy.Scope, rather than it being the default of a
	// version 1 manifest (rule H2).
	ScopeDeclared bool
	// Environments are those of the servers that run the job (what `--environment` says); empty: any.
	// It is each server's own choice, and no part of the definition.
	Environments []string
	// When is asked before a tick is run: an exit status other than 0 skips it. Nil: not asked.
	When *Command
	// Hooks are told what happens to the job. They are each server's own, and no part of the definition.
	Hooks []Hook
	// Secrets are references, never the secrets themselves. The first one signs.
	Secrets []string
}

// A Function is a Go function, which is part of the program that registered the job. No manifest can declare it.
type Function struct {
	// Name is what people see of it, such as "main.report". It decides nothing.
	Name string
}

// Key names the job in every store: "app/name".
func (s *Spec) Key() string { return s.App + "/" + s.Name }

// A Command is a program to execute, or a line for a shell.
type Command struct {
	Args  []string          // the program and its arguments, verbatim; empty if Shell is set
	Shell string            // a line for /bin/sh -c; empty if Args is set
	Dir   string            // where it runs; empty for the working directory of dibs
	Env   map[string]string // added to the environment of dibs
	// EnvFrom adds variables whose values are secrets: references, never the secrets themselves.
	EnvFrom map[string]string
	// User and Group are whom it runs as, by name or number; empty: as dibs does.
	User, Group string
	Umask       *int // nil: that of dibs
	Nice        int  // 0: that of dibs
}

// Argv is the program to execute, with its arguments.
func (c *Command) Argv() []string {
	if c.Shell != "" {
		return []string{"/bin/sh", "-c", c.Shell}
	}
	return c.Args
}

// A Request is an HTTP request to send.
type Request struct {
	Method  string
	URL     string
	Headers map[string]string
	Body    string
	// Redirects says which ones are followed; empty is RedirectsNone.
	Redirects Redirects
	// Proxy is the address of a proxy, ProxyNone, or empty for what the environment of dibs says.
	Proxy string
	TLS   *TLS // nil: the system's authorities, and nobody asks
}

// TLS is how a request's server is verified, and who asks: paths of PEM files, read for each attempt.
type TLS struct {
	CAFile, CertFile, KeyFile string
	ServerName                string
	MinVersion                string // "1.3"; empty is 1.2
}

// A Policy is what happens on contention, lateness, failure and crash.
type Policy struct {
	Concurrency Concurrency
	Scope       Scope
	// Timeout bounds each attempt, Deadline the whole run with its retries; 0 is no bound.
	Timeout  time.Duration
	Deadline time.Duration
	Retries  Retries
	CatchUp  CatchUp
	// CatchUpWindow is how far back missed ticks are caught up, and crashed ones run again.
	CatchUpWindow time.Duration
	OnCrash       OnCrash
	// StartingDeadline is how late a start is still on time; 0 is half the schedule's period, at
	// most 5 minutes (rule T4).
	StartingDeadline time.Duration
	// StopGrace is the time between asking a run to stop and killing it, except when its lease
	// is lost: then the lease's margin rules (rule L3).
	StopGrace     time.Duration
	Leftovers     Leftovers
	OnLostRequest OnLostRequest
	// Jitter spreads the starts of different jobs: each starts later than its tick by a share of it
	// that is always the same for that job.
	Jitter time.Duration
	// Between and UnlessBetween are windows of package schedule, read in the job's zone: a tick
	// outside all of the former, or inside one of the latter, is skipped.
	Between, UnlessBetween []string
}

// Retries bound the attempts of a run and the pauses between them.
type Retries struct {
	MaxAttempts int
	Min, Max    time.Duration
}

// DefaultPolicy is that of the job if it says nothing. One that enqueues is run again after a crash: its
// tick's task is enqueued once all the same.
func (s *Spec) DefaultPolicy() Policy {
	p := DefaultPolicy(s.Command != nil || s.Function != nil)
	if s.Task != nil {
		p.OnCrash = CrashRerun
	}
	return p
}

// DefaultPolicy is that of a job which says nothing. A command's, and a function's, has one attempt and no Timeout.
func DefaultPolicy(command bool) Policy {
	p := Policy{
		Concurrency:   Forbid,
		Scope:         Host,
		Timeout:       time.Minute,
		Retries:       Retries{MaxAttempts: 3, Min: time.Second, Max: time.Minute},
		CatchUp:       CatchUpSkip,
		CatchUpWindow: 24 * time.Hour,
		OnCrash:       CrashSkip,
		StopGrace:     10 * time.Second,
		Leftovers:     LeftoversWait,
		OnLostRequest: LostRequestWait,
	}
	if command {
		p.Retries.MaxAttempts = 1 // as cron does; a request may be lost on its way, a command is not
		p.Timeout = 0
	}
	return p
}
