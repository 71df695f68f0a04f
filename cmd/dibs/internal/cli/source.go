package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/serve"
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

// manifest is what the flags say of one.
func (o *sourceOptions) manifest(e env, name string) (m serve.Manifest, err error) {
	own, named, err := o.references()
	if err != nil {
		return m, usage(err)
	}
	if !source.IsAddress(name) && len(o.apps)+len(o.hosts)+len(o.queues)+len(o.limits) > 0 {
		return m, usage(errors.New("--app, --allow-host, --allow-queue and --allow-limit are for an application's manifest: " +
			"a file's manifest may use everything"))
	}
	for _, app := range o.apps {
		if err := source.CheckApp(app); err != nil {
			return m, usage(fmt.Errorf("--app %w", err))
		}
	}
	for _, host := range o.hosts {
		if err := source.CheckHost(host); err != nil {
			return m, usage(fmt.Errorf("--allow-host %w", err))
		}
	}
	return serve.Manifest{From: name, Stdin: e.stdin, Secret: own, Secrets: named, AllowHTTP: o.allowHTTP,
		Grants: source.Grants{Apps: o.apps, Hosts: o.hosts, Queues: o.queues, Limits: o.limits}}, nil
}

// open understands where a manifest is; it reads nothing yet. The secret is read for each request,
// so that a reload takes a new one.
func (o *sourceOptions) open(e env, name string) (*source.Source, error) {
	m, err := o.manifest(e, name)
	if err != nil {
		return nil, err
	}
	s, err := m.Source()
	if err != nil {
		return nil, usage(reworded(err))
	}
	return s, nil
}

// references are what --secret says: what signs the request to an application, and what a manifest may refer to
// by a name.
func (o *sourceOptions) references() (own string, named map[string]string, err error) {
	named = map[string]string{}
	for _, text := range o.secrets {
		name, ref, ok := strings.Cut(text, "=")
		switch {
		case secret.IsPlace(text) && own != "":
			return "", nil, errors.New("--secret: only one signs the request to an application: give the others a name, as in NAME=env:VARIABLE")
		case secret.IsPlace(text):
			own = text
		case !ok || !secret.IsPlace(ref) || !secret.IsName(name):
			return "", nil, errors.New("--secret: want env:NAME or file:/path, or with a name NAME=env:VARIABLE or NAME=file:/path; never the secret itself, because other users of this host can see arguments")
		case named[name] != "":
			return "", nil, fmt.Errorf("--secret %s=…: the name is given twice", name)
		default:
			named[name] = ref
		}
	}
	return own, named, nil
}

// places are where the secrets of --secret are, which open has checked.
func (o *sourceOptions) places() secret.Places {
	own, named, _ := o.references()
	return secret.Places{Own: own, Named: named}
}

// whereIs answers where the secret of a reference is.
func (o *sourceOptions) whereIs(ref string) (at string, err error) {
	if at, err = o.places().Where(ref); errors.Is(err, secret.ErrUnknown) {
		err = fmt.Errorf("%w: %s", err, addSecret(ref))
	}
	return at, err
}

// cured words what there is to do about a refusal, with our flags.
func cured(r *serve.Refusal) string {
	switch {
	case errors.Is(r, serve.ErrNoManifest):
		return "name the job's manifest with --manifest, or in DIBS_MANIFEST"
	case errors.Is(r, serve.ErrNoScope):
		return "give --default-scope global (one server runs each tick) or --default-scope host"
	case errors.Is(r, serve.ErrNoHost):
		_, err := hostPlace()
		return fmt.Sprint(err)
	case errors.Is(r, serve.ErrReach):
		return "name a shared store with --store or DIBS_STORE, make it scope host, or declare with ?reach=only-host that there is no other host"
	case errors.Is(r, serve.ErrSandbox):
		return "only the units that dibs apply --to systemd writes give it: apply (again), and run it by hand with systemctl start dibs-APP.JOB.0; " +
			"for dibs serve, remove sandbox, or give the job environments that this server is not in"
	case errors.Is(r, scheduler.ErrOtherSource):
		return fmt.Sprintf("If this application owns it, add --app %s on every server", r.App)
	case r.Secret() != "":
		return addSecret(r.Secret())
	}
	return ""
}

func addSecret(name string) string {
	return fmt.Sprintf("add --secret %s=env:VARIABLE or --secret %s=file:/path", name, name)
}

// refused is the status of a refusal.
func refused(err error) error {
	var r *serve.Refusal
	if errors.As(err, &r) {
		return usage(err)
	}
	return err
}

// reworded is a refusal with our flags.
func reworded(err error) error {
	var r *serve.Refusal
	if errors.As(err, &r) {
		r.Cure = cmp.Or(cured(r), r.Cure)
	}
	return err
}
