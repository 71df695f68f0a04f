package job

import (
	"slices"
	"strings"
	"time"
)

// A HookEvent is an event of which a hook can tell.
type HookEvent string

// The events. What each outcome means to them stands in docs/why/rules.md.
const (
	OnStart    HookEvent = "start"
	OnSuccess  HookEvent = "success"
	OnFailure  HookEvent = "failure"
	OnSkip     HookEvent = "skip"
	OnMiss     HookEvent = "miss"
	OnRecovery HookEvent = "recovery" // the first success after a failure
	OnTooLong  HookEvent = "too_long"
)

// A Hook tells somebody what happens to a job. Exactly one of Command, Request and Ping is set. A hook decides
// nothing: neither its failure nor its slowness changes anything for the job.
type Hook struct {
	On      []HookEvent
	Command *Command // Args or Shell alone
	Request *Request // a POST of the facts; URL, Headers and which way it goes
	// Ping is a request in the convention of healthchecks.io. In its URL, {app} and {job} stand for the names of
	// both. Of the Request, only the URL and the way it is sent (redirects, proxy, TLS) are used.
	Ping *Request
	// TooLong is how long a run may take before OnTooLong is told.
	TooLong time.Duration
	// Timeout bounds each attempt to tell. 0: DefaultHookTimeout.
	Timeout time.Duration
}

// PingURL is the address of a hook's Ping for a job, with the names filled in.
func (h *Hook) PingURL(s *Spec) string {
	return strings.NewReplacer("{app}", s.App, "{job}", s.Name).Replace(h.Ping.URL)
}

// DefaultHookTimeout bounds each attempt of a hook that has no Timeout.
const DefaultHookTimeout = 10 * time.Second

// Wants says whether the hook tells of an event.
func (h *Hook) Wants(on HookEvent) bool { return slices.Contains(h.On, on) }
