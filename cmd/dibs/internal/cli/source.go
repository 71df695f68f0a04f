package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/manifest/source"
)

// sourceOptions are the flags of commands that read a manifest.
type sourceOptions struct {
	secrets                     []string
	apps, hosts, queues, limits []string
	allowHTTP                   bool
}

// sourcesHelp is the same in the help of each of them.
const sourcesHelp = `MANIFEST is a file (JSON or YAML), a directory (its *.json, *.yaml and *.yml together), - for
standard input, or the https address of an application that serves its manifest
(https://host alone means https://host` + source.WellKnown + `). dibs signs the request to
an application, so --secret env:NAME is required, and uses https, except on this host's loopback.

An application's manifest may use only what you grant: the secret that signs, its own origin, and what you name
with --secret NAME=env:VARIABLE (in secret_refs: NAME), --allow-host, --allow-queue and --allow-limit. It may use
no files and no commands. Its app must be one of --app; without --app, it may be one that nobody else has
registered in the store. Each of these flags may be repeated.`

func (o *sourceOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.secrets, "secret", nil, "env:NAME or file:/path: the secret that signs the request to an application;\nNAME=env:VARIABLE or NAME=file:/path: a secret that a manifest may use as NAME")
	f.StringArrayVar(&o.apps, "app", nil, "`NAME` of the app that an application may have")
	f.StringArrayVar(&o.hosts, "allow-host", nil, "`HOST[:PORT]` that an application's manifest may call over https,"+
		"\nbeside its own origin; http://HOST[:PORT]: without TLS")
	f.StringArrayVar(&o.queues, "allow-queue", nil, "`QUEUE` that an application's manifest may enqueue into")
	f.StringArrayVar(&o.limits, "allow-limit", nil,
		"`KEY` of a limit that an application's manifest may set, beside APP/…")
	f.BoolVar(&o.allowHTTP, "allow-http", false, "request the manifest of an application on another host over http")
}

// open understands where a manifest is; it reads nothing yet. The secret is read for each request,
// so that a reload takes a new one.
func (o *sourceOptions) open(e env, name string) (*source.Source, error) {
	own, named, err := o.references()
	if err != nil {
		return nil, usage(err)
	}
	options := source.Options{Stdin: e.stdin, AllowHTTP: o.allowHTTP}
	if !source.IsAddress(name) && len(o.apps)+len(o.hosts)+len(o.queues)+len(o.limits) > 0 {
		return nil, usage(errors.New("--app, --allow-host, --allow-queue and --allow-limit are for an application's manifest: " +
			"a file's manifest may use everything"))
	}
	for _, app := range o.apps {
		if err := source.CheckApp(app); err != nil {
			return nil, usage(fmt.Errorf("--app %w", err))
		}
	}
	for _, host := range o.hosts {
		if err := source.CheckHost(host); err != nil {
			return nil, usage(fmt.Errorf("--allow-host %w", err))
		}
	}
	g := &options.Grants
	g.Secrets = []string{} // none is [] in JSON
	g.Apps, g.Hosts = append([]string{}, o.apps...), append([]string{}, o.hosts...)
	g.Queues, g.Limits = append([]string{}, o.queues...), append([]string{}, o.limits...)
	if own != "" {
		options.Secrets = func() ([][]byte, error) { return o.values([]string{own}) }
		g.Secrets = append(g.Secrets, own)
	}
	for name := range named {
		g.Secrets = append(g.Secrets, name)
	}
	slices.Sort(g.Secrets[min(1, len(g.Secrets)):])
	s, err := source.New(name, options)
	if err != nil {
		return nil, usage(err)
	}
	return s, nil
}

var (
	secretForm = lazy.Regexp(`(?s)^(env|file):.`)
	secretName = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_:./-]{0,127}$`) // as a manifest may have it
)

// references are what --secret says: what signs the request to an application, and what a manifest may refer to
// by a name.
func (o *sourceOptions) references() (own string, named map[string]string, err error) {
	named = map[string]string{}
	for _, text := range o.secrets {
		name, ref, ok := strings.Cut(text, "=")
		switch {
		case secretForm().MatchString(text) && own != "":
			return "", nil, errors.New("--secret: only one signs the request to an application: give the others a name, as in NAME=env:VARIABLE")
		case secretForm().MatchString(text):
			own = text
		case !ok || !secretForm().MatchString(ref) || !secretName().MatchString(name):
			return "", nil, errors.New("--secret: want env:NAME or file:/path, or with a name NAME=env:VARIABLE or NAME=file:/path; never the secret itself, because other users of this host can see arguments")
		case named[name] != "":
			return "", nil, fmt.Errorf("--secret %s=…: the name is given twice", name)
		default:
			named[name] = ref
		}
	}
	return own, named, nil
}

// values reads the secrets that references name: env:NAME, file:PATH, or the NAME of a --secret.
func (o *sourceOptions) values(refs []string) ([][]byte, error) {
	var all [][]byte
	for _, ref := range refs {
		at, err := o.whereIs(ref)
		if err != nil {
			return nil, err
		}
		value, err := readSecret(at)
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

// whereIs answers where a secret is: a reference without a name.
func (o *sourceOptions) whereIs(ref string) (string, error) {
	if secretForm().MatchString(ref) {
		return ref, nil
	}
	_, named, err := o.references()
	switch {
	case err != nil:
		return "", err
	case named[ref] == "":
		return "", fmt.Errorf("secret %q: dibs does not know where it is: add --secret %s=env:VARIABLE or --secret %s=file:/path", ref, ref, ref)
	}
	return named[ref], nil
}

func readSecret(at string) ([]byte, error) {
	if name, ok := strings.CutPrefix(at, "env:"); ok {
		_ = environ.Hide(name) // from commands of our own user; where it cannot be, it is as it was
		return []byte(os.Getenv(name)), nil
	}
	b, err := conffile.Read(strings.TrimPrefix(at, "file:"), conffile.Small)
	return bytes.TrimSpace(b), err
}

// variables are those of this process's own environment that hold the secrets of --secret, and those that
// references name.
func (o *sourceOptions) variables(refs ...string) map[string]bool {
	names := map[string]bool{}
	own, named, _ := o.references() // open has checked them
	refs = append(slices.Clone(refs), own)
	for _, ref := range named {
		refs = append(refs, ref)
	}
	for _, ref := range refs {
		if name, ok := strings.CutPrefix(ref, "env:"); ok {
			names[name] = true
		}
	}
	return names
}
