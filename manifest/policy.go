package manifest

import (
	"time"

	"github.com/dibs-run/dibs/job"
)

const (
	// maxTimeout is version 1's, in seconds.
	maxTimeout = 600
	// maxSeconds is the limit of every duration of our own: 30 days.
	maxSeconds = 30 * 24 * 60 * 60
	// maxBackoff is what version 1 leaves open: 100 years, which a time.Duration still holds.
	maxBackoff  = 100 * 365 * 24 * 60 * 60
	maxAttempts = 10
	// widen says how a request gets out of version 1's limits.
	widen = "; a request without dibs's own policy fields has the limits of version 1"
)

// policyFields are version 1's, then ours.
var policyFields = []string{
	"concurrency", "concurrency_scope", "timeout_seconds", "retries",
	"deadline_seconds", "catch_up", "catch_up_window_seconds", "on_crash",
	"starting_deadline_seconds", "stop_grace_seconds", "leftovers", "on_lost_request",
}

var retryNames = []string{"max_attempts", "min_seconds", "max_seconds"}

// policy reads each field from the first object that has it. Wide limits are those of commands,
// and of requests that use a policy field of ours.
func (r *reader) policy(command, wide bool, from ...fields) job.Policy {
	p := r.additions(command, from)
	get := func(name string) field { return inherit(name, from...) }
	p.Concurrency = enum(r, get("concurrency"), p.Concurrency, job.ParseConcurrency)
	if p.Concurrency == job.Wait && !wide {
		r.fail(get("concurrency"), "%q: want Allow, Forbid or Replace%s", p.Concurrency, widen)
	}
	p.Scope = enum(r, get("concurrency_scope"), p.Scope, job.ParseScope)
	p.Retries = r.retries(from, p.Retries)
	timeout := get("timeout_seconds")
	switch {
	case command:
		p.Timeout = r.seconds(timeout, limits{lo: 0, hi: maxSeconds}, p.Timeout)
	case wide:
		p.Timeout = r.seconds(timeout, limits{lo: 1, hi: maxSeconds}, p.Timeout)
	default:
		p.Timeout = r.seconds(timeout, limits{1, maxTimeout, widen}, p.Timeout)
	}
	return p
}

// additions reads our fields into a policy of defaults. What has no meaning for a command, or
// for a request, is inherited by neither.
func (r *reader) additions(command bool, from []fields) job.Policy {
	p := job.DefaultPolicy(command)
	get := func(name string) field { return inherit(name, from...) }
	p.Deadline = r.seconds(get("deadline_seconds"), limits{lo: 0, hi: maxSeconds}, p.Deadline)
	p.CatchUp = enum(r, get("catch_up"), p.CatchUp, job.ParseCatchUp)
	p.CatchUpWindow = r.seconds(get("catch_up_window_seconds"), limits{lo: 1, hi: maxSeconds}, p.CatchUpWindow)
	p.OnCrash = enum(r, get("on_crash"), p.OnCrash, job.ParseOnCrash)
	p.StartingDeadline = r.seconds(get("starting_deadline_seconds"), limits{lo: 0, hi: maxSeconds}, p.StartingDeadline)
	p.StopGrace = r.seconds(get("stop_grace_seconds"), limits{lo: 0, hi: maxSeconds}, p.StopGrace)
	leftovers := enum(r, get("leftovers"), p.Leftovers, job.ParseLeftovers)
	lost := enum(r, get("on_lost_request"), p.OnLostRequest, job.ParseOnLostRequest)
	if command {
		p.Leftovers = leftovers
	} else {
		p.OnLostRequest = lost
	}
	return p
}

// added says whether a request uses a field of ours: has a value there other than the default,
// which the canonical form leaves out.
func (r *reader) added(from []fields) bool {
	return r.additions(false, from) != job.DefaultPolicy(false)
}

// retryFields checks the names in a policy's retries, once.
func (r *reader) retryFields(policy fields) { r.object(policy.get("retries"), retryNames...) }

// retries are inherited one by one, too.
func (r *reader) retries(from []fields, p job.Retries) job.Retries {
	var levels []fields
	for _, o := range from {
		if f := o.get("retries"); f.present() {
			levels = append(levels, (&reader{}).openObject(f)) // retryFields has told of errors
		}
	}
	if levels == nil {
		return p
	}
	get := func(name string) field { return inherit(name, levels...) }
	p.MaxAttempts = int(r.integer(get("max_attempts"), limits{lo: 1, hi: maxAttempts}, int64(p.MaxAttempts)))
	p.Min = r.seconds(get("min_seconds"), limits{lo: 0, hi: maxBackoff}, p.Min)
	p.Max = r.seconds(get("max_seconds"), limits{lo: 1, hi: maxBackoff}, p.Max)
	if p.Max < p.Min {
		r.fail(levels[0].whole(), "max_seconds is %d and min_seconds %d: want a maximum that is no less",
			p.Max/time.Second, p.Min/time.Second)
	}
	return p
}
