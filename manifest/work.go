package manifest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/job"
)

// work reads what the job does: a request, a command or a task to enqueue.
func (r *reader) work(o fields, s *job.Spec) {
	for _, item := range items(o.get("environments")) {
		name, _ := r.text(item)
		s.Environments = append(s.Environments, name)
	}
	if f := o.get("when"); f.present() {
		s.When = r.program(f)
	}
	s.Hooks = r.defaults.hooks
	if f := o.get("hooks"); f.present() {
		s.Hooks = r.hooks(f)
	}
	if c := o.get("command"); c.present() {
		s.Command = r.command(o, c)
		return
	}
	if t := o.get("task"); t.present() {
		s.Task = r.task(t)
		return
	}
	s.Request = r.request(o.object("request"))
}

func (r *reader) request(o fields) *job.Request {
	req := &job.Request{Method: word(r, o.get("method"), "POST"), Headers: r.headers(o)}
	req.URL = r.url(o.get("url"))
	req.Body, _ = r.text(o.get("body"))
	r.way(o, req, r.defaults.self.object("request"))
	if len(r.defaults.headers) == 0 {
		return req
	}
	own := map[string]bool{}
	for name := range req.Headers {
		own[strings.ToLower(name)] = true
	}
	for name, value := range r.defaults.headers {
		if !own[strings.ToLower(name)] {
			req.Headers[name] = value
		}
	}
	return req
}

// way reads which way the request goes: what stands there, else what it inherits. What tls says is inherited
// as a whole, by what is sent over TLS.
func (r *reader) way(o fields, req *job.Request, inherits ...fields) {
	from := append([]fields{o}, inherits...)
	if way := word(r, inherit("redirects", from...), job.RedirectsNone); way != job.RedirectsNone {
		req.Redirects = way
	}
	f := inherit("proxy", from...)
	if proxy, ok := r.text(f); ok && proxy != job.ProxyEnvironment {
		req.Proxy = proxy
		r.port(f, proxy)
	}
	t, of := job.TLS{}, fieldsOf(inherit("tls", from...))
	t.CAFile, _ = r.text(of.get("ca_file"))
	t.CertFile, _ = r.text(of.get("cert_file"))
	t.KeyFile, _ = r.text(of.get("key_file"))
	t.ServerName, _ = r.text(of.get("server_name"))
	if t.MinVersion, _ = r.text(of.get("min_version")); t.MinVersion == "1.2" {
		t.MinVersion = ""
	}
	switch own := o.get("tls"); {
	case t == (job.TLS{}):
	case !strings.HasPrefix(strings.ToLower(req.URL), "http:"):
		req.TLS = &t
	case own.present():
		r.fail(own, "the address is not https, so tls has no effect: want https://, or no tls")
	}
}

func (r *reader) url(f field) string {
	s, ok := r.text(f)
	if !ok {
		return ""
	}
	if u, err := url.Parse(s); err != nil || u.Hostname() == "" {
		r.fail(f, "%s: want %s", quote(s), urlWant)
	}
	r.port(f, s)
	return s
}

// port refuses an address with a port that there cannot be.
func (r *reader) port(f field, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		r.fail(f, "the port is %s: want 1 to 65535", u.Port())
	}
}

// ofTransport are headers that nobody but the transport can set.
var ofTransport = []string{"content-length", "transfer-encoding", "trailer"}

// headers reads those of a request. Names are compared as HTTP does, without regard to case.
func (r *reader) headers(request fields) map[string]string {
	headers, seen := map[string]string{}, map[string]bool{}
	all := request.object("headers").all
	for _, name := range sortedKeys(all) {
		folded := strings.ToLower(name)
		headers[name], _ = r.text(all[name])
		switch {
		case seen[folded]:
			r.fail(all[name], "the same header is here in another spelling")
		case slices.Contains(ofTransport, folded):
			r.fail(all[name], "it says how the body is sent, which dibs does itself: remove it")
		case folded == "host" && !hostRule.re().MatchString(headers[name]):
			r.fail(all[name], "%s: want the name of a host, or HOST:PORT", quote(headers[name]))
		}
		seen[folded] = true
	}
	return headers
}

// program reads one of the two forms of a command.
func (r *reader) program(f field) *job.Command {
	c := &job.Command{}
	for _, item := range items(f) {
		arg, _ := r.text(item)
		c.Args = append(c.Args, arg)
	}
	c.Shell, _ = r.text(fieldsOf(f).get("shell"))
	return c
}

// command reads a job's command, and the dir and env beside it.
func (r *reader) command(o fields, f field) *job.Command {
	c := r.program(f)
	c.Dir, _ = r.text(o.get("dir"))
	if env := o.object("env").all; len(env) > 0 {
		c.Env = map[string]string{}
		for name, f := range env {
			c.Env[name], _ = r.text(f)
		}
	}
	r.identity(o, c)
	c.Sandbox = r.sandbox(o.object("sandbox"))
	return c
}

// identity reads which user a command runs as, and how.
func (r *reader) identity(o fields, c *job.Command) {
	if from := o.object("env_from").all; len(from) > 0 {
		c.EnvFrom = map[string]string{}
		for name, f := range from {
			c.EnvFrom[name], _ = r.text(f)
			if _, twice := c.Env[name]; twice {
				r.fail(f, "the variable is in env as well: want it in one of them")
			}
		}
	}
	c.User, _ = r.text(o.get("user"))
	c.Group, _ = r.text(o.get("group"))
	if text, ok := r.text(o.get("umask")); ok {
		if n, err := strconv.ParseInt(text, 8, 32); err == nil { // the rule has refused what is none
			mask := int(n)
			c.Umask = &mask
		}
	}
	c.Nice = int(r.integer(o.get("nice"), 0))
}
