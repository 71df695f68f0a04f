package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/schedule"
)

// podOptions are the flags for targets that start containers.
type podOptions struct {
	image, serviceAccount string
	podSecrets            []string
}

func (o *podOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.image, "image", "", "for kubernetes: the `IMAGE` of the pods, with dibs and what the jobs run")
	f.StringVar(&o.serviceAccount, "service-account", "", "for kubernetes: the service account `NAME` of the pods (default: no token)")
	f.StringArrayVar(&o.podSecrets, "pod-secret", nil, "for kubernetes: the Secret that has the store's address as store, and what secrets\nname, each as its variable or the end of its path; or REFERENCE=`NAME`/KEY for one\n(default dibs-APP)")
}

// inPods says whether entries are CronJobs.
func (o targetOptions) inPods() bool { return isKubernetes(o.to) }

func isKubernetes(to string) bool {
	rest, ok := strings.CutPrefix(to, "kubernetes")
	return ok && (rest == "" || rest[0] == ':' || rest[0] == '/')
}

// kubernetes connects to a cluster; with --render, it connects to none.
func (o targetOptions) kubernetes() (t target, err error) {
	t.name, t.translate = "Kubernetes", func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := kubernetes.Translate(s)
		return tr.Lines, tr.More, err
	}
	context, namespace, err := kubernetes.Split(strings.TrimPrefix(o.to, "kubernetes"))
	if err != nil {
		return t, err
	}
	t.document = func(form string, entries []deploy.Entry) ([]byte, error) {
		if form != "yaml" {
			return nil, fmt.Errorf("--render %s: want yaml", form)
		}
		text, err := kubernetes.Render(entries, namespace)
		return []byte(text), err
	}
	if o.render == "" {
		t.Target, err = kubernetes.New(context, namespace)
	}
	return t, err
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
	for _, ref := range secret.Of(spec) {
		at, err := o.whereIs(ref)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Key(), err)
		}
		refs = append(refs, at)
	}
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		s, _, err := o.podSecret(spec.App, ref)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// clash refuses two secrets that would be one key of one Secret, unless --pod-secret says so of both.
func (o *entryOptions) clash(entries []deploy.Entry) error {
	at := map[string]string{}
	for _, e := range entries {
		for _, s := range e.Container.Secrets {
			was := at[s.Name+"/"+s.Key]
			at[s.Name+"/"+s.Key] = s.Ref
			_, said, _ := o.podSecret(e.App, s.Ref)
			_, saidToo, _ := o.podSecret(e.App, was)
			if was != "" && was != s.Ref && !(said && saidToo) {
				return fmt.Errorf("%s and %s would both be %s of the Secret %s: say which is where, as in --pod-secret %s=%s/KEY", was, s.Ref, s.Key, s.Name, s.Ref, s.Name)
			}
		}
	}
	return nil
}

// podSecret is where one reference is: as --pod-secret said of it, or by its usual key in the Secret for all.
func (o *entryOptions) podSecret(app, ref string) (s deploy.Secret, said bool, err error) {
	s = deploy.Secret{Ref: ref, Name: "dibs-" + app, Key: filepath.Base(strings.TrimPrefix(strings.TrimPrefix(ref, "file:"), "env:"))}
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
			return s, false, usage(fmt.Errorf("--pod-secret %s: want NAME, or REFERENCE=NAME/KEY", text))
		}
		if of == ref {
			return deploy.Secret{Ref: ref, Name: name, Key: key}, true, nil
		}
	}
	return s, false, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
