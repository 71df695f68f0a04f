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
// errors are the store's.
type Refusal struct {
	// App is the manifest's, if it is known.
	App string
	// What is the error. Cure says what to do about it, if What does not.
	What error
	Cure string
}

// Errors that a Refusal can wrap, for errors.Is; scheduler.ErrOtherSource and scheduler.ErrFunction are others.
var (
	// ErrNoScope means that the store is shared, and neither the job nor Options.DefaultScope says which servers run
	// it.
	ErrNoScope = errors.New("has no concurrency_scope")
	// ErrReach means that the job is for the whole fleet, but its store is not.
	ErrReach = errors.New("reaches only this host")
	// ErrNoHost means that each host has the job for itself, but Options.Host names no store of this host.
	ErrNoHost = errors.New("is for each host by itself")
	// ErrSandbox means that the job has a sandbox, and that this process is not in it.
	ErrSandbox = errors.New("has a sandbox")
	// ErrSecret means that the manifest refers to a secret that Manifest.Secrets does not name.
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

// Unwrap returns What.
func (r *Refusal) Unwrap() error { return r.What }

// Secret returns the name of the secret that Manifest.Secrets lacks, if that is what is wrong.
func (r *Refusal) Secret() string {
	var unknown *secret.Unknown
	if errors.As(r.What, &unknown) {
		return unknown.Ref
	}
	return ""
}

// refused makes a Refusal of an error, unless it already is one. Nil stays nil.
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
