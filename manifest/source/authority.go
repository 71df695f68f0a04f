package source

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
)

// Grants are what the operator lets an application name in the manifest that it serves, in addition to its own
// origin. What the server can reach or read belongs to the operator, while the author of a fetched manifest is
// another person. The manifest of a file, a directory or standard input is the operator's own and needs no grants.
type Grants struct {
	// Origin is the application's: scheme, host and port. New fills it in.
	Origin string `json:"origin"`
	// Apps are the apps whose jobs it may declare. Without any, Load marks the application's jobs with their origin
	// (Spec.Source), and a store then takes them only if no other origin has registered the app.
	Apps []string `json:"apps"`
	// Secrets are the references that it may use, exactly as written: names, and its own as "env:NAME".
	Secrets []string `json:"secrets"`
	// Hosts are the hosts of its requests, hooks and proxies: HOST or HOST:PORT for https, and with a scheme before
	// it (http://HOST, socks5://HOST:PORT) for that scheme. The default port is the scheme's usual one. Write an
	// IPv6 address in brackets.
	Hosts []string `json:"hosts"`
	// Queues are the queues that its tasks may enter.
	Queues []string `json:"queues"`
	// Limits are the keys that its tasks may have a limit on, in addition to those that begin with its app and a
	// slash. A task that names a key also sets how many tasks of that key run, in all queues, and may stop the
	// running one.
	Limits []string `json:"limits"`
}

var (
	appForm  = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)
	hostForm = lazy.Regexp(`^((https?|socks5)://)?` +
		`([0-9A-Za-z_]([0-9A-Za-z._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$`)
)

// CheckApp returns what is wrong with an app that is granted.
func CheckApp(app string) error {
	if !appForm().MatchString(app) {
		return fmt.Errorf("%q: want the name of an app: a lower-case letter, then up to 62 of a-z, 0-9 and -", app)
	}
	return nil
}

// CheckHost returns what is wrong with a host that is granted.
func CheckHost(host string) error {
	if !hostForm().MatchString(host) || !portFits(grantedHost(host)) {
		return fmt.Errorf("%q: want HOST or HOST:PORT for https, as in hooks.example.com or 10.0.0.7:8443, or http://HOST",
			host)
	}
	return nil
}

// String returns the grants in words.
func (g *Grants) String() string {
	list := func(all []string) string { return cmp.Or(strings.Join(all, ", "), "none") }
	app := cmp.Or(strings.Join(g.Apps, ", "), "one that nobody else has registered")
	return fmt.Sprintf("app: %s; secrets: %s; hosts beside its own: %s; queues: %s; limit keys beside those of its app: %s; "+
		"no files and no commands", app, list(g.Secrets), list(g.Hosts), list(g.Queues), list(g.Limits))
}

// authority compares a fetched manifest with what its author was granted.
type authority struct {
	own    *url.URL
	grants *Grants
	errs   manifest.Errors
}

// check lists all that a manifest names without a grant.
func (g *Grants) check(own *url.URL, m *manifest.Manifest) error {
	a := authority{own: own, grants: g}
	if len(g.Apps) > 0 && !slices.Contains(g.Apps, m.App) {
		a.refuse("app", "%q is not an app of this application (%s): to allow it, add --app %s",
			m.App, strings.Join(g.Apps, ", "), m.App)
	}
	for i := range m.Jobs {
		a.job(fmt.Sprintf("jobs/%d", i), &m.Jobs[i])
	}
	if len(a.errs) == 0 {
		return nil
	}
	return a.errs
}

func (a *authority) refuse(path, format string, args ...any) {
	a.errs = append(a.errs, manifest.Error{Path: path, Message: fmt.Sprintf(format, args...)})
}

const noCommands = "an application may not run commands on this server: want a request or a task, or the manifest as a file"

func (a *authority) job(path string, s *job.Spec) {
	if s.Command != nil {
		a.refuse(path+"/command", noCommands)
	}
	if s.When != nil {
		a.refuse(path+"/when", noCommands)
	}
	for i, ref := range s.Secrets {
		if !slices.Contains(a.grants.Secrets, ref) {
			a.refuse(fmt.Sprintf("%s/auth/secret_refs/%d", path, i),
				"%q is not granted to this application: give dibs --secret NAME=env:VARIABLE or --secret NAME=file:/path, and write NAME here", ref)
		}
	}
	if s.Request != nil {
		a.request(path+"/request", s.Request)
	}
	if s.Task != nil {
		a.task(path+"/task", s)
	}
	for i := range s.Hooks {
		a.hook(fmt.Sprintf("%s/hooks/%d", path, i), s, &s.Hooks[i])
	}
}

// task checks which queue a task enters, and whose limit it declares: that is the key's, in whatever queue.
func (a *authority) task(path string, s *job.Spec) {
	t := s.Task
	if !slices.Contains(a.grants.Queues, t.Queue) {
		a.refuse(path+"/queue", "the queue %q is not granted to this application: add --allow-queue %s", t.Queue, t.Queue)
	}
	if l := t.Limit; l != nil && !strings.HasPrefix(l.Key, s.App+"/") && !slices.Contains(a.grants.Limits, l.Key) {
		a.refuse(path+"/limit/key", "the limit of %q is not granted to this application, and it would affect other tasks: "+
			"want a key that begins with %s/, or add --allow-limit %s", l.Key, s.App, l.Key)
	}
}

func (a *authority) hook(path string, s *job.Spec, h *job.Hook) {
	switch {
	case h.Command != nil:
		a.refuse(path+"/command", noCommands)
	case h.Request != nil:
		a.request(path+"/request", h.Request)
	case h.Ping != nil:
		ping := *h.Ping
		ping.URL = h.PingURL(s)
		a.request(path+"/ping", &ping)
	}
}

// request checks where a request goes, through what, and what it is shown of this server. A redirect is
// followed to the same origin only, so that the address says it all.
func (a *authority) request(path string, r *job.Request) {
	a.address(path+"/url", r.URL)
	for name, value := range r.Headers { // the server behind an address may serve other hosts, too
		if scheme, _, _ := strings.Cut(r.URL, "://"); strings.EqualFold(name, "Host") {
			a.address(path+"/headers/"+name, scheme+"://"+value)
		}
	}
	if r.Proxy != "" && r.Proxy != job.ProxyNone {
		a.address(path+"/proxy", r.Proxy)
	}
	t := r.TLS
	if t == nil {
		return
	}
	for _, f := range [][2]string{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}} {
		if f[1] != "" {
			a.refuse(path+"/tls/"+f[0], "an application may not use files of this server: leave it out, or give dibs the manifest as a file")
		}
	}
	if t.ServerName != "" && !a.named(t.ServerName) {
		a.refuse(path+"/tls/server_name", "the host %s is not granted to this application: add --allow-host %s", t.ServerName, t.ServerName)
	}
}

func (a *authority) address(path, address string) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		a.refuse(path, "%v", errAddress)
	case !a.allows(u):
		a.refuse(path, "%s://%s is not granted to this application, whose own is %s: add --allow-host %s",
			u.Scheme, u.Host, a.grants.Origin, grantOf(u))
	}
}

var errAddress = errors.New("the address cannot be read")

// allows reports whether an address has the application's own origin, or a host that it was granted.
func (a *authority) allows(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, a.own.Scheme) && same(u.Hostname(), a.own.Hostname()) && portOf(u) == portOf(a.own) {
		return true
	}
	return slices.ContainsFunc(a.grants.Hosts, func(granted string) bool {
		g := grantedHost(granted)
		return same(u.Scheme, g.Scheme) && same(u.Hostname(), g.Hostname()) && portOf(u) == portOf(g)
	})
}

// named reports whether a host may be named as that of a certificate.
func (a *authority) named(host string) bool {
	return same(host, a.own.Hostname()) || slices.ContainsFunc(a.grants.Hosts, func(granted string) bool {
		g := grantedHost(granted)
		return g.Scheme == "https" && same(host, g.Hostname())
	})
}

// grantedHost is the address that is granted by HOST, HOST:PORT or one of them behind a scheme. Without TLS the
// machine that answers for the name decides where a request goes, so that the grant must say the scheme.
func grantedHost(granted string) *url.URL {
	scheme, host, ok := strings.Cut(granted, "://")
	if !ok {
		scheme, host = "https", granted
	}
	return &url.URL{Scheme: scheme, Host: host}
}

// portFits reports whether an address has no port, or one that there may be.
func portFits(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && n > 0
}

func same(a, b string) bool { return strings.EqualFold(a, b) }

func portOf(u *url.URL) string {
	usual := map[string]string{"http": "80", "https": "443", "socks5": "1080"}
	return cmp.Or(u.Port(), usual[strings.ToLower(u.Scheme)])
}

// grantOf returns how an address's host is granted.
func grantOf(u *url.URL) string {
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	if !same(u.Scheme, "https") {
		host = strings.ToLower(u.Scheme) + "://" + host
	}
	return host
}
