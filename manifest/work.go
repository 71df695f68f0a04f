package manifest

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/job"
)

var (
	requestFields = []string{"method", "url", "headers", "body"}
	methods       = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
)

// work reads what the job does: a request or a command.
func (r *reader) work(o fields, d defaults, s *job.Spec) {
	request, command := o.get("request"), o.get("command")
	switch {
	case request.present() && command.present():
		r.fail(o.whole(), "want either request or command, not both")
	case command.present():
		s.Command = r.command(o, command)
		return
	case !request.present():
		r.fail(request, "it is missing: want a request, or a command in its place")
		return
	}
	for _, name := range []string{"dir", "env"} {
		if f := o.get(name); f.present() {
			r.fail(f, "only a command has this")
		}
	}
	if r.is(request, object) {
		s.Request = r.request(request, d)
	}
}

func (r *reader) request(f field, d defaults) *job.Request {
	o := r.object(f, requestFields...)
	req := &job.Request{Method: "POST", Headers: r.headers(o)}
	if method := o.get("method"); method.present() {
		var ok bool
		if req.Method, ok = r.text(method); ok && !slices.Contains(methods, req.Method) {
			r.fail(method, "%q: want %s", req.Method, strings.Join(methods, ", "))
		}
	}
	req.URL = r.url(o.get("url"))
	req.Body, _ = r.text(o.get("body"))
	for name, value := range r.headers(d.request) {
		if !hasHeader(req.Headers, name) {
			req.Headers[name] = value
		}
	}
	return req
}

func (r *reader) url(f field) string {
	const want = "an absolute http or https address"
	s, ok := r.required(f, want)
	if !ok {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		r.fail(f, "%q: want %s", s, want)
	}
	return s
}

// headers reads those of a request. Names are compared as HTTP does, without regard to case.
func (r *reader) headers(request fields) map[string]string {
	headers := map[string]string{}
	all := r.openObject(request.get("headers")).all
	for _, name := range sortedKeys(all) {
		f := all[name]
		value, ok := r.text(f)
		switch {
		case !isToken(name):
			r.fail(f, "%q is no name of a header: want letters, digits and !#$%%&'*+-.^_`|~", name)
		case hasHeader(headers, name):
			r.fail(f, "the same header stands here in another spelling")
		case ok && strings.ContainsFunc(value, isControl):
			r.fail(f, "a header's value has no line ends or other control characters: take them out")
		}
		headers[name] = value
	}
	return headers
}

func hasHeader(headers map[string]string, name string) bool {
	if _, ok := headers[name]; ok {
		return true
	}
	for other := range headers {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

func isToken(s string) bool {
	const tokens = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Trim(s, tokens) == ""
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// command reads one of the two forms, and the dir and env beside it.
func (r *reader) command(o fields, f field) *job.Command {
	const want = `want a list, the program and its arguments, or {"shell": "a line for /bin/sh"}`
	c := &job.Command{}
	switch f.node.kind {
	case list:
		for _, item := range r.items(f, 1, 0) {
			arg, _ := r.text(item)
			r.noNUL(item, arg)
			c.Args = append(c.Args, arg)
		}
		if len(c.Args) > 0 && c.Args[0] == "" && f.node.items[0].kind == text {
			r.fail(f, "the program's name is empty: %s", want)
		}
	case object:
		line := r.object(f, "shell").get("shell")
		c.Shell, _ = r.required(line, "a line for /bin/sh")
		if line.present() && line.node.kind == text && strings.TrimSpace(c.Shell) == "" {
			r.fail(line, "the line is empty: want a line for /bin/sh")
		}
		r.noNUL(line, c.Shell)
	case text:
		r.fail(f, "a plain string could mean either: %s", want)
	default:
		r.fail(f, "it is %s: %s", f.node.kind, want)
	}
	dir := o.get("dir")
	c.Dir, _ = r.text(dir)
	r.noNUL(dir, c.Dir)
	c.Env = r.env(o.get("env"))
	return c
}

func (r *reader) env(f field) map[string]string {
	all := r.openObject(f).all
	if len(all) == 0 {
		return nil
	}
	env := map[string]string{}
	for _, name := range sortedKeys(all) {
		value, _ := r.text(all[name])
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.fail(all[name], "%q is no name of a variable: want one without = in it", name)
		}
		r.noNUL(all[name], value)
		env[name] = value
	}
	return env
}

func (r *reader) noNUL(f field, s string) {
	if strings.ContainsRune(s, 0) {
		r.fail(f, "a NUL character cannot be passed to a program: take it out")
	}
}
