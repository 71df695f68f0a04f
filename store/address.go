package store

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/lazy"
)

// Schemes are the schemes of store addresses.
var Schemes = []string{"file", "mariadb", "memory", "mysql", "postgres", "postgresql", "redis", "rediss"}

// The errors about an address that cannot be parsed. Since nobody can tell where a password begins and ends in such
// an address, none of them quotes any of it, and none wraps another error that does.
var (
	errEmpty   = errors.New("it is empty; give a directory or a URL such as redis://host:6379/0")
	errForm    = errors.New("it is neither a URL, such as redis://host:6379/0, nor the path of a directory, which begins with / or ./")
	errScheme  = fmt.Errorf("its scheme is unknown; known are %s", strings.Join(Schemes, ", "))
	errControl = errors.New("it contains a control character or a line end")
	errEscapes = errors.New("in a user name or password write / as %2F, ? as %3F, # as %23, @ as %40, : as %3A, [ as %5B, % as %25 and a blank as %20")
	errParse   = fmt.Errorf("it is not a valid URL: %w", errEscapes)
	errPort    = fmt.Errorf("after the colon of its host there is no valid port: %w", errEscapes)
	errAt      = fmt.Errorf("it has an @ after the host or in the user name: %w", errEscapes)
	errHash    = fmt.Errorf("it has a # in it: %w", errEscapes)
	errComment = errors.New("a comment follows it: put the comment on its own line")
	errUser    = fmt.Errorf("its user name has a colon in it; write USER:PASSWORD, and %w", errEscapes)
	errQuery   = fmt.Errorf("its parameters are not of the form ?name=value&name=value: %w", errEscapes)
	errHere    = errors.New("a directory has no host and no user; write file:///var/lib/dibs, with three slashes")
	errSecrets = errors.New("a password is not accepted as a parameter; write it before the host, as in mysql://user:password@host/database")
)

// scheme matches the beginning of a URL.
var scheme = lazy.Regexp(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// parseURL reads an address. Its errors quote nothing of it.
func parseURL(s string) (*url.URL, error) {
	switch {
	case s == "":
		return nil, errEmpty
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return nil, errControl
	case s == "memory:" || strings.HasPrefix(s, "memory:?"):
		s = "memory://" + strings.TrimPrefix(s, "memory:")
	case strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//"), strings.HasPrefix(s, "."):
		path, query, _ := strings.Cut(s, "?")
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, errForm
		}
		s = (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
		return parsed(s)
	}
	m := scheme().FindStringSubmatch(s)
	switch {
	case m == nil:
		return nil, errForm
	case !slices.Contains(Schemes, strings.ToLower(m[1])):
		return nil, errScheme
	case strings.Contains(s, " #"):
		return nil, errComment
	case strings.Contains(s, "#"):
		return nil, errHash
	}
	return parsed(s)
}

func parsed(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	var port *url.Error
	switch {
	case errors.As(err, &port) && strings.HasPrefix(port.Err.Error(), "invalid port"):
		return nil, errPort
	case err != nil:
		return nil, errParse
	}
	return u, check(u)
}

// check refuses an address that was read differently than it was meant: parts of a password as a path, for example.
func check(u *url.URL) error {
	name := u.User.Username()
	q, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return errQuery
	case here(u) && (u.Host != "" && (u.Scheme != "file" || u.Host != "localhost") || u.User != nil || u.Scheme == "memory" && u.Path != ""):
		return errHere
	case u.Scheme != "file" && strings.Contains(u.EscapedPath()+u.RawQuery, "@"):
		return errAt
	case strings.Contains(name, ":"):
		return errUser
	case strings.Contains(name, "@"):
		return errAt
	case u.Scheme == "mysql" || u.Scheme == "mariadb":
		for p := range q {
			if !shown[strings.ToLower(p)] && secretive().MatchString(p) {
				return errSecrets
			}
		}
	}
	return nil
}

// here reports whether a store is not a server.
func here(u *url.URL) bool { return u.Scheme == "file" || u.Scheme == "memory" }

// secretive matches the names of parameters that hold secrets.
var secretive = lazy.Regexp(`(?i)pass|pwd|secret|token|auth|cred|user|key`)

// shown are the parameters whose values are shown.
var shown = map[string]bool{
	"namespace": true, "ttl": true, "lock": true, "reach": true, "expect_store": true,
	"host": true, "port": true, "dbname": true, "db": true, "search_path": true, "sslmode": true, "target_session_attrs": true,
	"sslcert": true, "sslkey": true, "sslrootcert": true, "passfile": true, "servicefile": true,
	"application_name": true, "connect_timeout": true, "pool_max_conns": true, "pool_min_conns": true, "socket": true,
	"timeout": true, "readtimeout": true, "writetimeout": true, "tls": true, "charset": true, "collation": true,
	"protocol": true, "dial_timeout": true, "read_timeout": true, "write_timeout": true, "pool_size": true, "skip_verify": true,
}

// hidden replaces what is not shown.
const hidden = "xxxxx"

// Redact returns an address without its password, without any parameter that could hold one, and without Redis's
// user name: a password without the colon before it looks like one.
func Redact(u *url.URL) string {
	if u == nil {
		return ""
	}
	v := *u
	v.Fragment, v.RawFragment = "", ""
	if v.Opaque != "" {
		v.Opaque = hidden
	}
	q := v.Query()
	names := !secretParameter(q) && !here(u)
	for name := range q {
		switch {
		case shown[strings.ToLower(name)]:
		case names || secretive().MatchString(name):
			q[name] = []string{hidden}
		default: // it may be what follows an & in a password
			delete(q, name)
			q[hidden] = []string{hidden}
		}
	}
	v.RawQuery = q.Encode()
	if _, ok := v.User.Password(); v.User != nil && strings.HasPrefix(v.Scheme, "redis") {
		v.User = url.User(hidden)
		if ok {
			v.User = url.UserPassword("", hidden)
		}
	}
	return v.Redacted()
}

// Scrub removes the secrets of the address from an error's text, in case a client has quoted them. What the error
// wraps stays wrapped. Nil stays nil.
func (c Config) Scrub(err error) error {
	if err == nil || c.URL == nil {
		return err
	}
	text := err.Error()
	for _, s := range c.secrets() {
		text = strings.ReplaceAll(text, s, hidden)
	}
	if text == err.Error() {
		return err
	}
	return scrubbed{err, text}
}

// secretParameter reports whether one of the parameters holds a secret.
func secretParameter(q url.Values) bool {
	for name := range q {
		if !shown[strings.ToLower(name)] && !strings.EqualFold(name, "user") && secretive().MatchString(name) {
			return true
		}
	}
	return false
}

// secrets returns the password and the values of secret parameters, in all the forms in which they can be quoted. It
// leaves out what is very short, and what the address shows anyway: removing those would garble every message.
func (c Config) secrets() (all []string) {
	open := []string{c.URL.Scheme, c.URL.User.Username(), c.URL.Hostname(), strings.TrimPrefix(c.URL.Path, "/"), c.Namespace}
	add := func(s string) {
		if len(s) < 3 || slices.Contains(open, s) {
			return
		}
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), url.UserPassword("", s).String()[1:]} {
			if !slices.Contains(all, form) {
				all = append(all, form)
			}
		}
	}
	if p, ok := c.URL.User.Password(); ok {
		add(p)
	}
	if q := c.URL.Query(); secretParameter(q) {
		for name, values := range q {
			if shown[strings.ToLower(name)] || strings.EqualFold(name, "user") {
				continue
			}
			if !secretive().MatchString(name) {
				add(name)
			}
			for _, v := range values {
				add(v)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

type scrubbed struct {
	error
	text string
}

func (s scrubbed) Error() string { return s.text }
func (s scrubbed) Unwrap() error { return s.error }

// Loopback reports whether all hosts of the address are this one, as far as this process can know: PostgreSQL's client
// takes the host that an address leaves out from its environment, and may find another in a service file.
func (c Config) Loopback() bool {
	if c.URL == nil {
		return false
	}
	hosts, q := strings.Split(c.URL.Host, ","), c.URL.Query()
	postgres := strings.HasPrefix(c.URL.Scheme, "postgres")
	switch {
	case q.Get("socket") != "":
		return true
	case q.Get("host") != "" && (postgres || c.URL.Host == ""): // PostgreSQL's client takes the parameter first
		hosts = strings.Split(q.Get("host"), ",")
	case postgres && c.URL.Hostname() == "":
		if q.Has("service") || os.Getenv("PGSERVICE") != "" {
			return false
		}
		hosts = strings.Split(os.Getenv("PGHOST"), ",")
	}
	return !slices.ContainsFunc(hosts, func(h string) bool { return !Local(h) })
}

// Local reports whether a host of an address, with or without a port, is this one: by a loopback name or address, or
// by the directory of its sockets.
func Local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "" || strings.HasPrefix(host, "/") || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
