package source

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
)

// Grants are what the operator lets an application name in the manifest that it serves, beside its own
// origin. What the server can reach or read is the operator's; the author of a fetched manifest is somebody
// else. The manifest of a file, a directory or standard input is the operator's own and needs no grants.
type Grants struct {
	// Origin is the application's: scheme, host and port. New fills it in.
	Origin string `json:"origin"`
	// Secrets are the references that it may use, word for word: names, and its own as "env:NAME".
	Secrets []string `json:"secrets"`
	// Hosts are where its requests, hooks and proxies may lead: HOST, for the usual port of the address,
	// or HOST:PORT. An IPv6 address stands in brackets.
	Hosts []string `json:"hosts"`
	// Queues are those that its tasks may enter.
	Queues []string `json:"queues"`
}

// hostForm is HOST or HOST:PORT.
var hostForm = regexp.MustCompile(`^([0-9A-Za-z_]([0-9A-Za-z._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$`)

// CheckHost says what is wrong with a host that is granted.
func CheckHost(host string) error {
	if !hostForm.MatchString(host) {
		return fmt.Errorf("%q: want HOST or HOST:PORT, as in hooks.example.com or 10.0.0.7:8443", host)
	}
	return nil
}

// String is the grants in words.
func (g *Grants) String() string {
	list := func(all []string) string {
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("secrets: %s; hosts beside its own: %s; queues: %s; no files and no commands", list(g.Secrets), list(g.Hosts), list(g.Queues))
}

// authority holds a fetched manifest against what its author was granted.
type authority struct {
	own    *url.URL
	grants *Grants
	errs   manifest.Errors
}

// check lists all that a manifest names and was not granted.
func (g *Grants) check(own *url.URL, m *manifest.Manifest) error {
	a := authority{own: own, grants: g}
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

const noCommands = "an application does not choose what runs on this server: want a request or a task, or the manifest as a file"

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
	if t := s.Task; t != nil && !slices.Contains(a.grants.Queues, t.Queue) {
		a.refuse(path+"/task/queue", "the queue %q is not granted to this application: add --allow-queue %s", t.Queue, t.Queue)
	}
	for i := range s.Hooks {
		a.hook(fmt.Sprintf("%s/hooks/%d", path, i), s, &s.Hooks[i])
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
	if r.Proxy != "" && r.Proxy != job.ProxyNone {
		a.address(path+"/proxy", r.Proxy)
	}
	t := r.TLS
	if t == nil {
		return
	}
	for _, f := range [][2]string{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}} {
		if f[1] != "" {
			a.refuse(path+"/tls/"+f[0], "an application names no files of this server: leave it out, or give dibs the manifest as a file")
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
		a.refuse(path, "%s://%s is not granted to this application, whose own is %s: add --allow-host %s", u.Scheme, u.Host, a.grants.Origin, hostAndPort(u))
	}
}

var errAddress = errors.New("the address cannot be read")

// allows says whether an address is of the application's own origin, or of a host that it was granted.
func (a *authority) allows(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, a.own.Scheme) && same(u.Hostname(), a.own.Hostname()) && portOf(u) == portOf(a.own) {
		return true
	}
	return slices.ContainsFunc(a.grants.Hosts, func(granted string) bool {
		g := url.URL{Scheme: u.Scheme, Host: granted}
		return same(u.Hostname(), g.Hostname()) && portOf(u) == portOf(&g)
	})
}

// named says whether a host may be named as that of a certificate.
func (a *authority) named(host string) bool {
	return same(host, a.own.Hostname()) || slices.ContainsFunc(a.grants.Hosts, func(granted string) bool {
		g := url.URL{Host: granted}
		return same(host, g.Hostname())
	})
}

func same(a, b string) bool { return strings.EqualFold(a, b) }

func portOf(u *url.URL) string {
	usual := map[string]string{"http": "80", "https": "443", "socks5": "1080"}
	return cmp.Or(u.Port(), usual[strings.ToLower(u.Scheme)])
}

// hostAndPort is how a host is granted.
func hostAndPort(u *url.URL) string {
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	return host
}
