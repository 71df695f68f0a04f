// Package job describes one job: what to run, when, and under which policies.
//
// A [Spec] is what package manifest reads from a file, and what a Go program registers with package scheduler or
// package dibs. Set App, Name, Schedules and one of Command, Request, Task and Function; [Spec.DefaultPolicy] fills
// in the policies. [Policy] says what happens on contention, lateness, failure and crash. [Spec.Definition] is the
// part that all servers must agree on.
//
//	s := job.Spec{App: "shop", Name: "invoices", Schedules: []string{"15 4 1 * *"}, Timezone: "Europe/Berlin",
//		Command: &job.Command{Args: []string{"php", "generateInvoices.php"}}}
//	s.Policy = s.DefaultPolicy()
//
// The types are plain values. Nothing here validates them: package manifest does. The package imports no other
// package of dibs.
package job

import "time"

// A Spec is one job. Exactly one of Command, Request, Task and Function is set, and says what to do.
type Spec struct {
	App  string
	Name string
	// Source is the address of the application that chose App by itself. It is empty if the operator chose App: the
	// manifest is their own, or they said that the application speaks for App. It is part of the definition.
	Source string
	// Schedules are expressions of package schedule; the job is due when any of them is.
	Schedules []string
	// Timezone is the IANA name of the zone in which the schedules are read.
	Timezone string
	// DST decides what happens to fixed times when the zone's clocks change; empty is DSTVixie.
	DST     DST
	Command *Command
	Request *Request
	Task    *Task
	// Function is a Go function of one program. No other program can run it.
	Function *Function
	Policy   Policy
	// ScopeDeclared means that Policy.Scope was declared, and is not the default of a version 1 manifest (rule H2).
	ScopeDeclared bool
	// Environments are the environments of servers (`--environment`) that run the job; empty: any. Each server
	// decides for itself, so it is not part of the definition.
	Environments []string
	// When is run before each tick: an exit status other than 0 skips the tick. Nil: no such condition.
	When *Command
	// Hooks notify somebody of what happens to the job. Each server has its own; they are not part of the
	// definition.
	Hooks []Hook
	// Secrets are references, never the secrets themselves. The first one signs.
	Secrets []string
}

// A Function is a Go function, which is part of the program that registered the job. No manifest can declare it.
type Function struct {
	// Name is for people, such as "main.report". It decides nothing.
	Name string
}

// Key returns the job's name in every store: "app/name".
func (s *Spec) Key() string { return s.App + "/" + s.Name }

// A Command is a program to execute, or a line for a shell.
type Command struct {
	Args  []string          // the program and its arguments, verbatim; empty if Shell is set
	Shell string            // a line for /bin/sh -c; empty if Args is set
	Dir   string            // where it runs; empty for the working directory of dibs
	Env   map[string]string // added to the environment of dibs
	// EnvFrom adds variables whose values are secrets: references, never the secrets themselves.
	EnvFrom map[string]string
	// User and Group are what the command runs as, by name or number; empty: the same as dibs.
	User, Group string
	Umask       *int // nil: that of dibs
	Nice        int  // 0: that of dibs
	// Sandbox is what systemd takes away from the command. Where dibs is not started by a unit that has it, the
	// command is refused.
	Sandbox Sandbox
}

// Argv returns the program to execute, with its arguments.
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
	// Redirects decides which redirects are followed; empty is RedirectsNone.
	Redirects Redirects
	// Proxy is the address of a proxy, ProxyNone, or empty for the proxy of dibs's environment.
	Proxy string
	TLS   *TLS // nil: the system's authorities, and nobody asks
}

// TLS is how a request's server is verified, and which certificate dibs shows: paths of PEM files, read for each
// attempt.
type TLS struct {
	CAFile, CertFile, KeyFile string
	ServerName                string
	MinVersion                string // "1.3"; empty is 1.2
}

// A Policy decides what happens on contention, lateness, failure and crash.
type Policy struct {
	Concurrency Concurrency
	Scope       Scope
	// Timeout bounds each attempt, Deadline the whole run with its retries; 0: no bound.
	Timeout  time.Duration
	Deadline time.Duration
	Retries  Retries
	CatchUp  CatchUp
	// CatchUpWindow is how far back missed ticks are caught up, and crashed ones run again.
	CatchUpWindow time.Duration
	OnCrash       OnCrash
	// StartingDeadline is how late a start is still on time; 0 is half the schedule's period, at most 5 minutes
	// (rule T4).
	StartingDeadline time.Duration
	// StopGrace is the time between asking a run to stop and killing it. If its lease is lost, the lease's margin
	// applies instead (rule L3).
	StopGrace     time.Duration
	Leftovers     Leftovers
	OnLostRequest OnLostRequest
	// Jitter spreads the starts of different jobs: each job starts later than its tick by a share of Jitter that is
	// always the same for that job. 0: on time.
	Jitter time.Duration
	// Between and UnlessBetween are windows of package schedule, read in the job's zone. A tick outside all windows
	// of Between, or inside one of UnlessBetween, is skipped.
	Between, UnlessBetween []string
}

// Retries bound the attempts of a run and the pauses between them.
type Retries struct {
	MaxAttempts int
	Min, Max    time.Duration
}

// DefaultPolicy returns the policy of a job that declares none. A job that enqueues is run again after a crash: the
// task of its tick is still enqueued only once.
func (s *Spec) DefaultPolicy() Policy {
	p := DefaultPolicy(s.Command != nil || s.Function != nil)
	if s.Task != nil {
		p.OnCrash = CrashRerun
	}
	return p
}

// DefaultPolicy returns the policy of a job that declares none. For a command or a function, it has one attempt and
// no Timeout.
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
