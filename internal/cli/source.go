package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/manifest/source"
)

// sourceOptions are the flags of commands that read a manifest.
type sourceOptions struct {
	secret    string
	allowHTTP bool
}

// sourcesHelp is the same in the help of each of them.
const sourcesHelp = `MANIFEST is a file (JSON or YAML), a directory (its *.json, *.yaml and *.yml together), - for
standard input, or the https address of an application that serves its manifest
(https://host alone means https://host` + source.WellKnown + `). An application is asked with
a signature, so --secret is needed, and over https, except on this host's loopback.`

func (o *sourceOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.secret, "secret", "", "env:NAME or file:/path: what signs the request to an application")
	f.BoolVar(&o.allowHTTP, "allow-http", false, "ask an application on another host without TLS")
}

// open understands where a manifest is; it reads nothing yet. The secret is read for each request,
// so that a reload takes a new one.
func (o *sourceOptions) open(e env, name string) (*source.Source, error) {
	options := source.Options{Stdin: e.stdin, AllowHTTP: o.allowHTTP}
	if o.secret != "" {
		if kind, at, _ := strings.Cut(o.secret, ":"); kind != "env" && kind != "file" || at == "" {
			return nil, usage(errors.New("--secret: want env:NAME or file:/path, where the secret is; never the secret itself, which other users of this host could see"))
		}
		options.Secrets = func() ([][]byte, error) { return secrets([]string{o.secret}) }
	}
	s, err := source.New(name, options)
	if err != nil {
		return nil, usage(err)
	}
	return s, nil
}
