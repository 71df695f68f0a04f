package serve

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/manifest/source"
)

// A Manifest says where the jobs are declared, and which secrets their declaration may name.
type Manifest struct {
	// From is a file (JSON or YAML), a directory of such files, the https address of an application that serves its
	// manifest, or "-", which reads Stdin once.
	From  string
	Stdin io.Reader
	// Secret says where to find the secret that signs the requests to an application, both for its manifest and for
	// its jobs: "env:NAME" or "file:/path". Without one, an application is not asked.
	Secret string
	// Secrets says, by name, where to find the secrets that a manifest names: "env:NAME" or "file:/path". They are
	// read when they are needed. Commands do not see the variables among them, unless a job names one for itself;
	// nor can other processes of this user read them in what the kernel shows of this process.
	Secrets map[string]string
	// Grants are what the manifest of an application may name besides its own origin: Apps, Hosts, Queues and
	// Limits. Their Secrets are those above.
	Grants source.Grants
	// AllowHTTP allows requests without TLS to an application on another host.
	AllowHTTP bool
}

// Source parses where the manifest is; it reads nothing yet.
func (m Manifest) Source() (*source.Source, error) {
	if m.From == "" {
		return nil, &Refusal{What: ErrNoManifest, Cure: "say in Manifest.From where it is"}
	}
	if m.Secret != "" && !secret.IsPlace(m.Secret) {
		return nil, &Refusal{What: errors.New("Manifest.Secret is not env:NAME or file:/path, where the secret is")}
	}
	for name, at := range m.Secrets {
		if !secret.IsName(name) || !secret.IsPlace(at) {
			return nil, &Refusal{What: fmt.Errorf("Manifest.Secrets: under %q: want env:NAME or file:/path, where the secret is", name)}
		}
	}
	o := source.Options{Stdin: m.Stdin, AllowHTTP: m.AllowHTTP, Grants: m.Grants}
	g := &o.Grants
	for _, list := range []*[]string{&g.Apps, &g.Hosts, &g.Queues, &g.Limits} {
		*list = append([]string{}, *list...) // none is [] in JSON
	}
	g.Secrets = []string{}
	for name := range m.Secrets {
		g.Secrets = append(g.Secrets, name)
	}
	slices.Sort(g.Secrets)
	if m.Secret != "" {
		o.Secrets = func() ([][]byte, error) { return m.places().Values([]string{m.Secret}) }
		g.Secrets = append([]string{m.Secret}, g.Secrets...)
	}
	s, err := source.New(m.From, o)
	return s, refused("", err)
}

// ErrNoManifest: Manifest.From is empty.
var ErrNoManifest = errors.New("no manifest")

func (m Manifest) places() secret.Places { return secret.Places{Own: m.Secret, Named: m.Secrets} }
