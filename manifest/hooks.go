package manifest

import (
	"time"

	"github.com/dibs-run/dibs/job"
)

// hooksShape is a list of who is told what. Hooks say nothing about the job itself, so that they
// widen no limits of version 1.
func hooksShape() *shape {
	return listOf("Who is told what happens to the job.", 0, maxHooks, hookShape())
}

func hookShape() *shape {
	command := commandShape()
	command.about = "A program that is told: the facts are in its environment, and as JSON on its standard input."
	ping := textOf("A check's address in the convention of healthchecks.io; {app} and {job} stand for the names.", urlRule)
	ping.want = urlWant
	s := objectOf("A hook: on what, and how.",
		prop{"on", true, listOf("What it is told of.", 1, maxHooks, wordOf("",
			job.OnStart, job.OnSuccess, job.OnFailure, job.OnSkip, job.OnMiss, job.OnRecovery, job.OnTooLong))},
		prop{"command", false, command},
		prop{"request", false, hookRequestShape()},
		prop{"ping", false, ping},
		prop{"too_long_seconds", false, numberOf("How long a run may take before too_long.", 1, maxSeconds)},
		prop{"timeout_seconds", false, numberOf("For each attempt to tell.", 1, maxHookTime).byDefault(inSeconds(job.DefaultHookTimeout))})
	s.prop("on").want = "a list of events"
	s.choices = []choice{{[]string{"command", "request", "ping"}, "", "one of command, request and ping"}}
	return s
}

func hookRequestShape() *shape {
	url := textOf("Where the facts are sent, with POST, as JSON.", urlRule)
	url.want = urlWant
	return objectOf("A webhook that is told.",
		prop{"url", true, url},
		prop{"headers", false, headersShape(maxInherited)})
}

// hooks reads those of a job, or of the defaults.
func (r *reader) hooks(f field) (all []job.Hook) {
	list := items(f)
	for _, item := range list[:min(len(list), maxHooks)] {
		all = append(all, r.hook(fieldsOf(item)))
	}
	return all
}

func (r *reader) hook(o fields) job.Hook {
	h := job.Hook{Timeout: r.seconds(o.get("timeout_seconds"), job.DefaultHookTimeout), TooLong: r.seconds(o.get("too_long_seconds"), 0)}
	for _, item := range items(o.get("on")) {
		if on := word(r, item, job.HookEvent("")); on != "" && !h.Wants(on) {
			h.On = append(h.On, on)
		}
	}
	switch threshold := o.get("too_long_seconds"); {
	case h.Wants(job.OnTooLong) && !threshold.present():
		r.fail(o.whole(), "it is told of too_long, and does not say what that is: want too_long_seconds")
	case len(h.On) > 0 && !h.Wants(job.OnTooLong) && threshold.present():
		r.fail(threshold, "it is not told of too_long: want that in on")
	}
	if c := o.get("command"); c.present() {
		h.Command = r.program(c)
	}
	if f := o.get("request"); f.present() {
		request := fieldsOf(f)
		h.Request = &job.Request{URL: r.url(request.get("url")), Headers: r.headers(request)}
	}
	if ping := o.get("ping"); ping.present() {
		h.Ping = r.url(ping)
	}
	return h
}

// hooksSize is about how much of the canonical form they are.
func hooksSize(all []job.Hook) (size int) {
	for _, h := range all {
		size += len(h.Ping)
		if h.Command != nil {
			size += len(h.Command.Shell)
			for _, arg := range h.Command.Args {
				size += len(arg)
			}
		}
		if h.Request != nil {
			size += len(h.Request.URL)
			for name, value := range h.Request.Headers {
				size += len(name) + len(value)
			}
		}
	}
	return size
}

type canonicalHook struct {
	On      []job.HookEvent       `json:"on"`
	Command any                   `json:"command,omitempty"`
	Request *canonicalHookRequest `json:"request,omitempty"`
	Ping    string                `json:"ping,omitempty"`
	TooLong int64                 `json:"too_long_seconds,omitempty"`
	Timeout *int64                `json:"timeout_seconds,omitempty"`
}

type canonicalHookRequest struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"` // written by key
}

func canonicalHooks(all []job.Hook) (written []canonicalHook) {
	for _, h := range all {
		c := canonicalHook{On: h.On, Ping: h.Ping, TooLong: int64(h.TooLong / time.Second), Timeout: seconds(h.Timeout, job.DefaultHookTimeout)}
		if h.Command != nil {
			c.Command = canonicalProgram(h.Command)
		}
		if h.Request != nil {
			c.Request = &canonicalHookRequest{h.Request.URL, h.Request.Headers}
		}
		written = append(written, c)
	}
	return written
}
