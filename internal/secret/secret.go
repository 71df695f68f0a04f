// Package secret finds the secrets that flags, options and manifests refer to: they say where a secret is, never the
// secret itself.
package secret

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/job"
)

var (
	place = lazy.Regexp(`(?s)^(env|file):.`)
	name  = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_:./-]{0,127}$`) // as a manifest may have it
)

// IsPlace says whether a reference says where a secret is: env:NAME or file:PATH.
func IsPlace(ref string) bool { return place().MatchString(ref) }

// IsName says whether a manifest may call a secret so.
func IsName(text string) bool { return name().MatchString(text) }

// Read reads the secret at a place. It may be empty. Others of this process's user no longer see a variable that held
// it in what the kernel shows of this process.
func Read(at string) ([]byte, error) {
	if name, ok := strings.CutPrefix(at, "env:"); ok {
		_ = environ.Hide(name) // from commands of our own user; where it cannot be, it is as it was
		return []byte(os.Getenv(name)), nil
	}
	b, err := conffile.Read(strings.TrimPrefix(at, "file:"), conffile.Small)
	return bytes.TrimSpace(b), err
}

// ErrUnknown is what an Unknown is to errors.Is.
var ErrUnknown = errors.New("dibs does not know where it is")

// ErrInline is the error of a reference that is the secret itself, as cronix takes it. It does not repeat the secret.
var ErrInline = errors.New("a secret is in the manifest itself (raw:…), where others can read it: keep it in a file or a variable, and refer to it as file:/path or env:NAME")

// Unknown is the error of a reference to a name that nobody gave a place.
type Unknown struct{ Ref string }

func (u *Unknown) Error() string { return fmt.Sprintf("secret %q: %v", u.Ref, ErrUnknown) }

// Is is for errors.Is.
func (u *Unknown) Is(target error) bool { return target == ErrUnknown }

// Places say where secrets are.
type Places struct {
	// Own is the place of the one that signs the requests to an application; empty: there is none.
	Own string
	// Named are the places of those that a manifest refers to by a name.
	Named map[string]string
}

// Values reads the secrets that references name: env:NAME, file:PATH, or one of the names. Empty ones are errors.
func (p Places) Values(refs []string) ([][]byte, error) {
	var all [][]byte
	for _, ref := range refs {
		at, err := p.Where(ref)
		if err != nil {
			return nil, err
		}
		value, err := Read(at)
		switch {
		case err != nil:
			return nil, fmt.Errorf("secret %q: %w", ref, err)
		case len(value) == 0:
			return nil, fmt.Errorf("secret %q is empty", ref)
		}
		all = append(all, value)
	}
	return all, nil
}

// Where is the place of a reference. The error is an *Unknown, or ErrInline.
func (p Places) Where(ref string) (string, error) {
	switch {
	case IsPlace(ref):
		return ref, nil
	case p.Named[ref] == "" && strings.HasPrefix(ref, "raw:"):
		return "", ErrInline
	case p.Named[ref] == "":
		return "", &Unknown{ref}
	}
	return p.Named[ref], nil
}

// Variables are those of this process's own environment that hold the secrets of p, and those that references name.
func (p Places) Variables(refs ...string) map[string]bool {
	names := map[string]bool{}
	refs = append(slices.Clone(refs), p.Own)
	for _, ref := range p.Named {
		refs = append(refs, ref)
	}
	for _, ref := range refs {
		if name, ok := strings.CutPrefix(ref, "env:"); ok {
			names[name] = true
		}
	}
	return names
}

// Of are a job's references to secrets.
func Of(spec *job.Spec) []string {
	refs := slices.Clone(spec.Secrets)
	if spec.Command != nil {
		refs = append(refs, slices.Sorted(maps.Values(spec.Command.EnvFrom))...)
	}
	return refs
}
