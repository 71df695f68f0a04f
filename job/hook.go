package job

import (
	"slices"
	"strings"
	"time"
)

// A HookEvent is an event that a hook can report.
type HookEvent string

// The events. docs/why/rules.md says which outcomes cause which event.
const (
	OnStart    HookEvent = "start"
	OnSuccess  HookEvent = "success"
	OnFailure  HookEvent = "failure"
	OnSkip     HookEvent = "skip"
	OnMiss     HookEvent = "miss"
	OnRecovery HookEvent = "recovery" // the first success after a failure
	OnTooLong  HookEvent = "too_long"
)

// A Hook notifies somebody of what happens to a job. Exactly one of Command, Request and Ping is set. A hook decides
// nothing: neither its failure nor its slowness changes anything for the job.
type Hook struct {
	On      []HookEvent
	Command *Command // Args or Shell alone
	Request *Request // a POST of the facts; URL, Headers and which way it goes
	// Ping is a request in the convention of healthchecks.io. In its URL, {app} and {job} stand for the two names.
	// Of the Request, only the URL and the way it is sent (redirects, proxy, TLS) are used.
	Ping *Request
	// TooLong is how long a run may take before OnTooLong is reported.
	TooLong time.Duration
	// Timeout bounds each attempt to notify. 0: DefaultHookTimeout.
	Timeout time.Duration
}

// PingURL returns the address of a hook's Ping for a job, with the names filled in.
func (h *Hook) PingURL(s *Spec) string {
	return strings.NewReplacer("{app}", s.App, "{job}", s.Name).Replace(h.Ping.URL)
}

// DefaultHookTimeout bounds each attempt of a hook that has no Timeout.
const DefaultHookTimeout = 10 * time.Second

// Wants reports whether the hook reports an event.
func (h *Hook) Wants(on HookEvent) bool { return slices.Contains(h.On, on) }
