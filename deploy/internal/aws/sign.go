// Package aws calls an API of Amazon Web Services that speaks JSON over HTTPS, as far as deploy needs it: Signature
// Version 4, credentials, and calls that are bounded and repeated. docs/why/dependencies.md says why it is not the
// SDK.
package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Keys are what requests are signed with. They are never printed.
type Keys struct {
	ID, Secret string
	// Token goes with keys that end by themselves; else it is empty.
	Token string
}

// String keeps the keys out of texts.
func (Keys) String() string { return "keys" }

const stamp = "20060102T150405Z"

// sign adds the headers of Signature Version 4, of this body at this instant.
func sign(r *http.Request, body []byte, k Keys, region, service string, now time.Time) {
	at := now.UTC().Format(stamp)
	r.Header.Set("X-Amz-Date", at)
	if k.Token != "" {
		r.Header.Set("X-Amz-Security-Token", k.Token)
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	names := slices.Sorted(maps.Keys(headers))
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, path(r.URL), query(r.URL.Query()))
	for _, name := range names {
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(strings.Fields(headers[name]), " "))
	}
	signed := strings.Join(names, ";")
	fmt.Fprintf(&b, "\n%s\n%s", signed, digest(body))

	scope := strings.Join([]string{at[:8], region, service, "aws4_request"}, "/")
	text := "AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + digest([]byte(b.String()))
	key := []byte("AWS4" + k.Secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		k.ID, scope, signed, hex.EncodeToString(mac(key, text))))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// path is the path as it is signed: what is sent, encoded once more.
func path(u *url.URL) string {
	sent := u.EscapedPath()
	if sent == "" {
		return "/"
	}
	parts := strings.Split(sent, "/")
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return strings.Join(parts, "/")
}

// query is the query in order of its names, and of the values of each.
func query(q url.Values) string {
	var all []string
	for name, values := range q {
		for _, v := range values {
			all = append(all, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}

// escape encodes all but the unreserved characters of RFC 3986.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
