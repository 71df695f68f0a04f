package manifest

import (
	"time"

	"github.com/dibs-run/dibs/job"
)

// hooksShape is the list of hooks. Hooks say nothing about the job itself, so they widen no limits of version 1.
func hooksShape() *shape {
	return listOf("Who gets reports about the job.", 0, maxHooks, hookShape())
}

func hookShape() *shape {
	command := commandShape()
	command.about = "A program to run: the facts are in its environment, and as JSON on its standard input."
	s := objectOf("A hook: on what, and how.",
		prop{"on", true, listOf("The events to report.", 1, maxHooks, wordOf("",
			job.OnStart, job.OnSuccess, job.OnFailure, job.OnSkip, job.OnMiss, job.OnRecovery, job.OnTooLong))},
		prop{"command", false, command},
		prop{"request", false, hookRequestShape()},
		prop{"ping", false, pingShape()},
		prop{"too_long_seconds", false, numberOf("How long a run may take before dibs reports too_long.", 1, maxSeconds)},
		prop{"timeout_seconds", false, numberOf("Bounds each attempt of a report.", 1, maxHookTime).byDefault(inSeconds(job.DefaultHookTimeout))})
	s.prop("on").want = "a list of events"
	s.choices = []choice{{[]string{"command", "request", "ping"}, "", "one of command, request and ping"}}
	return s
}

func hookRequestShape() *shape {
	url := textOf("The address that gets the facts, with POST, as JSON.", urlRule)
	url.want = urlWant
	return objectOf("A webhook to call.", append([]prop{
		{"url", true, url},
		{"headers", false, headersShape(maxInherited)}}, wayProps()...)...)
}

// pingShape is an address, alone or with which way the ping goes.
func pingShape() *shape {
	url := func() *shape {
		s := textOf("A check's address in the convention of healthchecks.io; {app} and {job} are replaced by the names.", urlRule)
		s.want = urlWant
		return s
	}
	return &shape{about: "A check to ping.", want: "an address, or an object with url, redirects, proxy and tls",
		forms: []*shape{url(), objectOf("", append([]prop{{"url", true, url()}}, wayProps()...)...)}}
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
		r.fail(o.whole(), "too_long is in on, but too_long_seconds is missing")
	case len(h.On) > 0 && !h.Wants(job.OnTooLong) && threshold.present():
		r.fail(threshold, "too_long is missing in on")
	}
	if c := o.get("command"); c.present() {
		h.Command = r.program(c)
	}
	if f := o.get("request"); f.present() {
		request := fieldsOf(f)
		h.Request = r.told(request.get("url"), request)
		h.Request.Headers = r.headers(request)
	}
	if ping := o.get("ping"); ping.present() {
		address, object := ping, fieldsOf(ping)
		if url := object.get("url"); url.present() {
			address = url
		}
		h.Ping = r.told(address, object)
	}
	return h
}

// told reads where a hook's request is sent, and which way. It inherits nothing from the jobs' requests: the receiver
// is another party, which is not to see their certificate.
func (r *reader) told(address field, of fields) *job.Request {
	req := &job.Request{URL: r.url(address)}
	r.way(of, req)
	return req
}

// hooksSize is about how much of the canonical form they are.
func hooksSize(all []job.Hook) (size int) {
	for _, h := range all {
		if h.Ping != nil {
			size += len(h.Ping.URL) + len(h.Ping.Proxy)
		}
		if h.Command != nil {
			size += len(h.Command.Shell)
			for _, arg := range h.Command.Args {
				size += len(arg)
			}
		}
		if h.Request != nil {
			size += len(h.Request.URL) + len(h.Request.Proxy)
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
	Ping    any                   `json:"ping,omitempty"`
	TooLong int64                 `json:"too_long_seconds,omitempty"`
	Timeout *int64                `json:"timeout_seconds,omitempty"`
}

type canonicalHookRequest struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"` // written by key
	canonicalWay
}

type canonicalPing struct {
	URL string `json:"url"`
	canonicalWay
}

func canonicalHooks(all []job.Hook) (written []canonicalHook) {
	for _, h := range all {
		c := canonicalHook{On: h.On, TooLong: int64(h.TooLong / time.Second), Timeout: seconds(h.Timeout, job.DefaultHookTimeout)}
		if h.Command != nil {
			c.Command = canonicalProgram(h.Command)
		}
		if h.Request != nil {
			c.Request = &canonicalHookRequest{h.Request.URL, h.Request.Headers, canonicalWayOf(h.Request)}
		}
		if h.Ping != nil {
			c.Ping = canonicalPingOf(h.Ping)
		}
		written = append(written, c)
	}
	return written
}

// canonicalPingOf is an address alone where no more is said.
func canonicalPingOf(ping *job.Request) any {
	if way := canonicalWayOf(ping); way != (canonicalWay{}) {
		return canonicalPing{ping.URL, way}
	}
	return ping.URL
}
