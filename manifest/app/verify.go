package app

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/run/webhook"
)

// Tolerance is the default for how far a signature's time may differ from now, in either direction.
const Tolerance = 300 * time.Second

// Reasons to refuse a request, in the order in which they are checked.
var (
	ErrMissingSignature  = errors.New("MissingSignature")
	ErrMalformedHeader   = errors.New("MalformedHeader")
	ErrStaleTimestamp    = errors.New("StaleTimestamp")
	ErrSignatureMismatch = errors.New("SignatureMismatch")
)

var (
	integer = regexp.MustCompile(`^-?[0-9]{1,15}$`)
	digest  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Verify checks that a request, as a server got it, with this body, was signed by one of the secrets within Tolerance
// of now. It returns the index of that secret. Any error is one of the four above.
func Verify(r *http.Request, body []byte, now time.Time, secrets ...[]byte) (which int, err error) {
	return VerifyWithin(Tolerance, r, body, now, secrets...)
}

// VerifyWithin is Verify with another tolerance, in whole seconds.
func VerifyWithin(tolerance time.Duration, r *http.Request, body []byte, now time.Time, secrets ...[]byte) (which int, err error) {
	at, sum, err := signature(r.Header.Values(webhook.SignatureHeader))
	if err != nil {
		return 0, err
	}
	if d := now.Unix() - at; d > int64(tolerance/time.Second) || d < -int64(tolerance/time.Second) {
		return 0, ErrStaleTimestamp
	}
	which = -1
	for i, secret := range secrets { // all of them: how long it takes tells nothing
		_, want, _ := strings.Cut(webhook.Sign(secret, time.Unix(at, 0), r.Method, target(r), body), "v1=")
		if hmac.Equal([]byte(want), []byte(sum)) && which < 0 && len(secret) > 0 {
			which = i
		}
	}
	if which < 0 {
		return 0, ErrSignatureMismatch
	}
	return which, nil
}

// signature reads the header: segments in any order; t and v1 must each be there once.
func signature(headers []string) (at int64, sum string, err error) {
	switch {
	case len(headers) == 0:
		return 0, "", ErrMissingSignature
	case len(headers) > 1:
		return 0, "", ErrMalformedHeader
	}
	parts := map[string]string{}
	for segment := range strings.SplitSeq(headers[0], ",") {
		name, value, ok := strings.Cut(segment, "=")
		name = strings.TrimSpace(name)
		if _, twice := parts[name]; twice || !ok {
			return 0, "", ErrMalformedHeader
		}
		parts[name] = strings.TrimSpace(value)
	}
	if !integer.MatchString(parts["t"]) || !digest.MatchString(parts["v1"]) {
		return 0, "", ErrMalformedHeader
	}
	at, err = strconv.ParseInt(parts["t"], 10, 64)
	if err != nil || strconv.FormatInt(at, 10) != parts["t"] { // what was signed are the digits themselves
		return 0, "", ErrMalformedHeader
	}
	return at, parts["v1"], nil
}

// target returns the path and the query as they were sent.
func target(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI() // of a proxy's form, with the whole address
}

// first cuts what an error says to a line that fits into an answer.
func first(err error) []byte {
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return append(line[:min(len(line), 1000)], '\n')
}
