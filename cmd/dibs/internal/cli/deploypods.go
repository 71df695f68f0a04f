package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
)

// podOptions are the flags for targets that start containers.
type podOptions struct {
	image, serviceAccount string
	podSecrets            []string
	render                string
}

func (o *podOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.image, "image", "", "for kubernetes: the `IMAGE` of the pods, with dibs and what the jobs run")
	f.StringVar(&o.serviceAccount, "service-account", "", "for kubernetes: the service account `NAME` of the pods (default: no token)")
	f.StringArrayVar(&o.podSecrets, "pod-secret", nil, "for kubernetes: the Secret that has the store's address as store, and what secrets\nname, each as its variable or the end of its path; or REFERENCE=`NAME`/KEY for one\n(default dibs-APP)")
}

// renderFlag is for plan and apply.
func (o *podOptions) renderFlag(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.render, "render", "", "print what would be installed, as a `FORMAT` of the target, and ask nobody:\nyaml for kubernetes, for kubectl or GitOps")
	f.Lookup("render").NoOptDefVal = "default"
}

// inPods says whether the target starts containers: its entries then have nothing of this host.
func (o *entryOptions) inPods() bool { return isKubernetes(o.to) }

func isKubernetes(to string) bool {
	rest, ok := strings.CutPrefix(to, "kubernetes")
	return ok && (rest == "" || rest[0] == ':' || rest[0] == '/')
}

// kubernetesTarget connects to a cluster; to render, nothing is connected to.
func (o targetOptions) kubernetesTarget(rendering bool) (t target, err error) {
	t.name, t.translate = "Kubernetes", func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := kubernetes.Translate(s)
		return tr.Lines, tr.More, err
	}
	context, namespace, err := kubernetes.Split(strings.TrimPrefix(o.to, "kubernetes"))
	if err != nil {
		return t, err
	}
	t.render = func(format string, entries []deploy.Entry) (string, error) {
		if format != "default" && format != "yaml" {
			return "", fmt.Errorf("--render=%s: want yaml", format)
		}
		return kubernetes.Render(entries, namespace)
	}
	if !rendering {
		t.Target, err = kubernetes.New(context, namespace)
	}
	return t, err
}

// inImage is where packages and the image of dibs have it.
const inImage = "/usr/bin/dibs"

// podCommon is what all entries in pods have: nothing of this host's environment, and the store by a secret or by an
// address without a password.
func (o *entryOptions) podCommon(c *deploy.Entry) error {
	c.Env = map[string]string{}
	// Contention is no failed pod.
	c.Command = append(c.Command, "--contended-exit", "0")
	if o.store == "" {
		c.Env["DIBS_STORE_FILE"] = kubernetes.StorePath
		return nil
	}
	a, err := resolve(o.store)
	switch {
	case err != nil:
		return err
	case a.Secret():
		return fmt.Errorf("--store %s: it holds a password, and others can read entries: keep the address in a Secret (--pod-secret)", a)
	case !a.shared():
		return fmt.Errorf("--store %s reaches only one host, and a pod is none: name a store that all reach", a)
	}
	c.Command = append(c.Command, "--store", o.store)
	return nil
}

// podScope decides a job's scope: in a pod there is no host that a job could belong to.
func (o *entryOptions) podScope(spec *job.Spec) error {
	if !spec.ScopeDeclared {
		if o.scope == "" {
			return fmt.Errorf("job %s does not say its concurrency_scope: say --default-scope global, which is what Kubernetes can have", spec.Key())
		}
		spec.Policy.Scope = job.Scope(o.scope)
		spec.ScopeDeclared = true
	}
	if spec.Policy.Scope != job.Global {
		return fmt.Errorf("job %s has concurrency_scope host, and a pod's host is gone with it: say global, or let dibs serve run this job", spec.Key())
	}
	return nil
}

// inPod makes an entry one that a pod runs.
func (o *entryOptions) inPod(e *deploy.Entry, spec *job.Spec, s *schedule.Schedule, exact bool) error {
	if c := spec.Command; c != nil && (c.User != "" || c.Group != "") {
		return fmt.Errorf("%s: it has a user or a group, and a pod cannot change who it is: leave them out, and name the user with --user NUMBER", spec.Key())
	}
	c := &deploy.Container{Image: o.image, ServiceAccount: o.serviceAccount}
	if !source.IsAddress(o.serveOptions.source) {
		one := manifest.Manifest{App: spec.App, Jobs: []job.Spec{*spec}}
		c.Manifest = string(one.Canonical())
	}
	var err error
	if c.Secrets, err = o.podSecretsOf(spec); err != nil {
		return err
	}
	e.Container = c
	due := time.Unix(0, 0) // how late a tick may start does not depend on which it is
	timed := scheduler.Job{Spec: *spec}
	e.StartWithin = timed.StartBy(due).Sub(due)
	if e.Plain = nil; exact && e.User == "" {
		e.Plain = plainOf(spec, s)
		if e.Plain != nil {
			e.Plain.When, e.Plain.Zone = slices.Clone(e.When), ""
		}
	}
	return nil
}

// podSecretsOf is where Kubernetes has what a job's references name, and the store's address.
func (o *entryOptions) podSecretsOf(spec *job.Spec) (all []deploy.Secret, err error) {
	var refs []string
	if o.store == "" {
		refs = append(refs, "file:"+kubernetes.StorePath)
	}
	if own, _, _ := o.references(); own != "" {
		refs = append(refs, own)
	}
	for _, ref := range secretsOf(spec) {
		at, err := o.whereIs(ref)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Key(), err)
		}
		refs = append(refs, at)
	}
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		s, err := o.podSecret(spec.App, ref)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// podSecret is where one reference is: as --pod-secret says of it, or by its usual key in the Secret for all.
func (o *entryOptions) podSecret(app, ref string) (deploy.Secret, error) {
	s := deploy.Secret{Ref: ref, Name: "dibs-" + app, Key: filepath.Base(strings.TrimPrefix(strings.TrimPrefix(ref, "file:"), "env:"))}
	for _, text := range o.podSecrets {
		of, where, one := cutLast(text, "=")
		if !one {
			s.Name = text
			continue
		}
		if of == "store" {
			of = "file:" + kubernetes.StorePath
		}
		name, key, ok := strings.Cut(where, "/")
		if !ok {
			return s, usage(fmt.Errorf("--pod-secret %s: want NAME, or REFERENCE=NAME/KEY", text))
		}
		if of == ref {
			return deploy.Secret{Ref: ref, Name: name, Key: key}, nil
		}
	}
	return s, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

var errNoRender = errors.New("--render is for kubernetes: for the others, see dibs plan, which shows the text")

// printRendered is plan and apply with --render.
func (o *deployOptions) printRendered(e env, w wanted) error {
	if w.target.render == nil {
		return usage(errNoRender)
	}
	text, err := w.target.render(o.render, w.entries)
	if err != nil {
		return usage(err)
	}
	for _, n := range w.notes {
		fmt.Fprintf(e.stderr, "note: %s\n", n)
	}
	_, err = fmt.Fprint(e.stdout, text)
	return err
}
