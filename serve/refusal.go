package serve

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/scheduler"
)

// A Refusal is the error of a manifest, or of options, that are wrong: another try is refused as well. All other
// errors are of the store.
type Refusal struct {
	// App is the manifest's, where it is known.
	App string
	// What is wrong. Cure says what to do about it, if that is not said there.
	What error
	Cure string
}

// What a Refusal may be to errors.Is; scheduler.ErrOtherSource and scheduler.ErrFunction are others.
var (
	// ErrNoScope: the store is shared, and neither the job nor Options.DefaultScope says which servers run it.
	ErrNoScope = errors.New("has no concurrency_scope")
	// ErrReach: the job is one for the whole fleet, and its store is not.
	ErrReach = errors.New("reaches only this host")
	// ErrNoHost: the job is each host's own, and Options.Host names no store of this host.
	ErrNoHost = errors.New("is for each host by itself")
	// ErrSecret: the manifest refers to a secret that Manifest.Secrets does not name.
	ErrSecret = secret.ErrUnknown
)

func (r *Refusal) Error() string {
	first, _ := utf8.DecodeRuneInString(r.Cure)
	switch {
	case r.Cure == "":
		return r.What.Error()
	case unicode.IsUpper(first): // a sentence of its own
		return fmt.Sprintf("%v. %s", r.What, r.Cure)
	}
	return fmt.Sprintf("%v: %s", r.What, r.Cure)
}

// Unwrap is What.
func (r *Refusal) Unwrap() error { return r.What }

// Secret is the name of the secret of which nobody said where it is, if that is what is wrong.
func (r *Refusal) Secret() string {
	var unknown *secret.Unknown
	if errors.As(r.What, &unknown) {
		return unknown.Ref
	}
	return ""
}

// refused makes a Refusal of an error, unless it is one; nil of none.
func refused(app string, err error) error {
	var r *Refusal
	if err == nil || errors.As(err, &r) {
		return err
	}
	r = &Refusal{App: app, What: err}
	switch {
	case r.Secret() != "":
		r.Cure = fmt.Sprintf("give its place in Manifest.Secrets, under %q", r.Secret())
	case errors.Is(err, scheduler.ErrOtherSource):
		r.Cure = fmt.Sprintf("If this application owns it, name %s in Manifest.Grants.Apps on every server", app)
	}
	return r
}
