package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many are followed within an attempt.
const maxRedirects = 5

// redirect returns where to send the request next. If that is nil, why says why the redirect was not followed.
func (t Target) redirect(req *http.Request, res *http.Response, hops int) (to *url.URL, why string) {
	if res.StatusCode < 300 || res.StatusCode > 399 || res.Header.Get("Location") == "" {
		return nil, ""
	}
	to, err := res.Location()
	switch {
	case err != nil:
		return nil, ", to an address that cannot be read"
	case !t.SameOrigin:
		why = "dibs does not follow redirects"
	case !sameOrigin(req.URL, to):
		why = "a redirect to another origin is not followed"
	case !keeps(res.StatusCode, req.Method):
		why = "only 307 and 308 keep the method and the body, and a redirect without them is not followed"
	case hops >= maxRedirects:
		why = fmt.Sprintf("it is the one after %d, and no more are followed", maxRedirects)
	default:
		to.User, to.Fragment, to.RawFragment = req.URL.User, "", ""
		return to, ""
	}
	return nil, fmt.Sprintf(", to %q: %s", public(to.String()), why)
}

// keeps reports whether a redirect asks for the same request again. The older ones turn it into a GET.
func keeps(status int, method string) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		return method == http.MethodGet
	}
	return false
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	}
	return "80"
}

// public is an address without what may be secret in it.
func public(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that cannot be read)"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", "" // a name alone may be a token
	return u.String()
}

// bare is an error without the address in it.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
