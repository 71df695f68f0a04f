package manifest

import (
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

// policy reads each field from the first object that has it: the job's own, then the defaults'. A command, a request
// or a task does not inherit a field that has no meaning for it.
func (r *reader) policy(s *job.Spec, of *shape, own, standard fields) job.Policy {
	p := s.DefaultPolicy()
	get := func(name string) field { return inherit(name, own, standard) }
	for _, field := range of.props {
		if f := get(field.name); r.is(f, field.shape.kind) && inherited(f.path) {
			if says := field.shape.wrong(f.node); says != "" {
				r.fail(f, "%s", says) // wide enough for the defaults, not for this heir
			}
		}
	}
	p.Concurrency = word(r, get("concurrency"), p.Concurrency)
	p.Scope = word(r, get("concurrency_scope"), p.Scope)
	p.Timeout = r.seconds(get("timeout_seconds"), p.Timeout)
	p.Retries = r.retries(own.object("retries"), standard.object("retries"), p.Retries)
	p.Deadline = r.seconds(get("deadline_seconds"), p.Deadline)
	p.CatchUp = word(r, get("catch_up"), p.CatchUp)
	p.CatchUpWindow = r.seconds(get("catch_up_window_seconds"), p.CatchUpWindow)
	p.OnCrash = word(r, get("on_crash"), p.OnCrash)
	p.StartingDeadline = r.seconds(get("starting_deadline_seconds"), p.StartingDeadline)
	p.StopGrace = r.seconds(get("stop_grace_seconds"), p.StopGrace)
	p.Jitter = r.seconds(get("jitter_seconds"), p.Jitter)
	p.Between, p.UnlessBetween = r.windows(get("between")), r.windows(get("unless_between"))
	switch {
	case s.Command != nil:
		p.Leftovers = word(r, get("leftovers"), p.Leftovers)
	case s.Request != nil:
		p.OnLostRequest = word(r, get("on_lost_request"), p.OnLostRequest)
	}
	return p
}

// windows reads a list of windows of the week.
func (r *reader) windows(f field) (all []string) {
	for _, item := range items(f) {
		text, ok := r.text(item)
		if !ok {
			continue
		}
		if _, err := schedule.ParseWindow(text); err != nil {
			r.fail(item, "%v", err)
		}
		all = append(all, text)
	}
	return all
}

// retries are inherited one by one, too.
func (r *reader) retries(own, standard fields, p job.Retries) job.Retries {
	get := func(name string) field { return inherit(name, own, standard) }
	p.MaxAttempts = int(r.integer(get("max_attempts"), int64(p.MaxAttempts)))
	p.Min = r.seconds(get("min_seconds"), p.Min)
	p.Max = r.seconds(get("max_seconds"), p.Max)
	if p.Max < p.Min {
		place := own
		if len(own.all) == 0 {
			place = standard
		}
		r.fail(place.whole(), "max_seconds is %d and min_seconds %d: want a maximum that is not smaller",
			p.Max/time.Second, p.Min/time.Second)
	}
	return p
}
