package kube

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	jsonstrict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/dibs-run/dibs/store"
)

const chartFolder = "../../../packaging/files/chart"

// A rendering is what the chart makes of values, by kind and name.
type rendering struct {
	notes string
	all   map[string]metav1.Object
}

// rendered is what helm install would send, for a release, or the error that its user sees.
func rendered(release, values string) (r rendering, err error) {
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		return r, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return r, err
	}
	full, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: release, Namespace: "jobs", IsInstall: true, Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		return r, err
	}
	files, err := engine.Render(c, full)
	if err != nil {
		return r, err
	}
	r.all = map[string]metav1.Object{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = files[name]
			continue
		}
		for text := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			if err := r.add(text); err != nil {
				return r, errors.Join(err, errors.New(name+":\n"+text))
			}
		}
	}
	return r, nil
}

// add decodes an object strictly into its type.
func (r rendering) add(text string) error {
	b, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil || string(b) == "null" {
		return err
	}
	var kind metav1.TypeMeta
	if err := jsonstrict.UnmarshalCaseSensitivePreserveInts(b, &kind); err != nil {
		return err
	}
	types := map[string]metav1.Object{"apps/v1 Deployment": new(appsv1.Deployment), "batch/v1 Job": new(batchv1.Job), "v1 ConfigMap": new(corev1.ConfigMap),
		"v1 Secret": new(corev1.Secret), "policy/v1 PodDisruptionBudget": new(policyv1.PodDisruptionBudget)}
	o := types[kind.APIVersion+" "+kind.Kind]
	if o == nil {
		return errors.New("no object of a known kind")
	}
	if unknown, err := jsonstrict.UnmarshalStrict(b, o); err != nil || len(unknown) > 0 {
		return errors.Join(append(unknown, err)...)
	}
	name := kind.Kind + " " + o.GetName()
	if r.all[name] != nil {
		return errors.New("there are two of " + name)
	}
	r.all[name] = o
	return nil
}

// pods are the templates of all pods.
func (r rendering) pods() map[string]corev1.PodTemplateSpec {
	all := map[string]corev1.PodTemplateSpec{}
	for name, o := range r.all {
		switch o := o.(type) {
		case *appsv1.Deployment:
			all[name] = o.Spec.Template
		case *batchv1.Job:
			all[name] = o.Spec.Template
		}
	}
	return all
}

const manifest = "version: 1\napp: shop\njobs:\n  - {name: a, schedule: '*/5 * * * *', command: [dibs, version]}\n"

// usual are values as a team has them.
const usual = `
store: {existingSecret: our-store}
serve:
  manifest: {version: 1, app: shop, jobs: [{name: a, schedule: "*/5 * * * *", command: [dibs, version]}]}
  defaultScope: global
  environment: "live: eu"
  env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: shop, key: token}}}]
  resources: {requests: {cpu: 50m, memory: 64Mi}}
workers:
  mail: {queues: [mail, slow], command: [php, "/srv/it's \"here\".php"], slots: 1000000, replicas: 3}
  big: {queues: [big], command: [run], image: {repository: big, tag: "sha256:0123"}, terminationGracePeriodSeconds: 90, grace: 1m}
`

// The chart's objects decode strictly into the API's types, their pods pass the standard "restricted", and Helm finds
// nothing to complain about.
func TestTheChart(t *testing.T) {
	for name, values := range map[string]string{
		"usual":        usual,
		"url, text":    "store: {url: 'redis://:s3cret@cache/0'}\nserve: {manifest: \"" + strings.ReplaceAll(manifest, "\n", "\\n") + "\", replicas: 1}\n",
		"workers only": "store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {a: {queues: [q], command: [c]}}\ninit: {enabled: false}\n",
		"config map":   "store: {existingSecret: s}\nserve: {existingConfigMap: ours, volumes: [{name: x, emptyDir: {}}], volumeMounts: [{name: x, mountPath: /x}]}\nglobal: {x: 1}\n",
	} {
		t.Run(name, func(t *testing.T) {
			given, err := chartutil.ReadValues([]byte(values))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.All(chartFolder, given, "jobs", true).Messages {
				if !strings.Contains(m.Error(), "icon is recommended") {
					t.Errorf("helm lint: %s", m)
				}
			}
			r, err := rendered("prod", values)
			if err != nil {
				t.Fatal(err)
			}
			allowed(t, r)
		})
	}
}

// allowed checks the pods against the standard, and the names against what Kubernetes takes.
func allowed(t *testing.T, r rendering) {
	t.Helper()
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range r.all {
		for _, said := range validation.IsDNS1123Subdomain(o.GetName()) {
			t.Errorf("%s: %s", name, said)
		}
		for key, value := range o.GetLabels() {
			for _, said := range validation.IsValidLabelValue(value) {
				t.Errorf("%s: label %s=%q: %s", name, key, value, said)
			}
		}
	}
	for name, p := range r.pods() {
		for _, result := range judge.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}, &p.ObjectMeta, &p.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		c := p.Spec.Containers[0]
		if !slices.Equal(c.Command, []string{"/usr/bin/dibs"}) {
			t.Errorf("%s: %q", name, c.Command)
		}
		if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken || !*c.SecurityContext.ReadOnlyRootFilesystem || *p.Spec.EnableServiceLinks {
			t.Errorf("%s: %+v", name, p.Spec)
		}
		if c.Env[0].Value != c.VolumeMounts[0].MountPath+"/dir" || c.Env[1].Value != c.VolumeMounts[2].MountPath+"/store" || len(p.Spec.Volumes) < 3 || p.Spec.Volumes[2].Secret == nil {
			t.Errorf("%s: %+v, %+v", name, c.Env, c.VolumeMounts)
		}
	}
}

// What stands in the objects is what the values say.
func TestTheChartSaysWhatItsValuesSay(t *testing.T) {
	r, err := rendered("prod", usual)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ConfigMap prod-dibs-serve", "Deployment prod-dibs-serve", "Deployment prod-dibs-work-big", "Deployment prod-dibs-work-mail",
		"Job prod-dibs-init", "PodDisruptionBudget prod-dibs-serve"}
	if got := slices.Sorted(maps.Keys(r.all)); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	var m map[string]any
	if err := yaml.UnmarshalStrict([]byte(r.all["ConfigMap prod-dibs-serve"].(*corev1.ConfigMap).Data["jobs.yaml"]), &m); err != nil || m["app"] != "shop" {
		t.Errorf("%v, %v", m, err)
	}
	d := r.all["Deployment prod-dibs-serve"].(*appsv1.Deployment)
	c := d.Spec.Template.Spec.Containers[0]
	if got := strings.Join(c.Args, "|"); *d.Spec.Replicas != 2 || got != "serve|/etc/dibs/jobs.d|--drain=12s|--log-json|--default-scope=global|--environment=live: eu" {
		t.Errorf("%d of %s", *d.Spec.Replicas, got)
	}
	if c.Image != "ghcr.io/dibs-run/dibs:0.0.0" || c.Env[2].Name != "TOKEN" || c.VolumeMounts[3].MountPath != "/etc/dibs/jobs.d" || c.Resources.Requests.Memory().String() != "64Mi" {
		t.Errorf("%+v", c)
	}
	mail := r.all["Deployment prod-dibs-work-mail"].(*appsv1.Deployment)
	if got := strings.Join(mail.Spec.Template.Spec.Containers[0].Args, "|"); *mail.Spec.Replicas != 3 || got != `work|mail|slow|--grace=12s|--slots=1000000|--log-json|--|php|/srv/it's "here".php` {
		t.Errorf("%s", got)
	}
	big := r.all["Deployment prod-dibs-work-big"].(*appsv1.Deployment).Spec.Template.Spec
	if big.Containers[0].Image != "big@sha256:0123" || *big.TerminationGracePeriodSeconds != 90 {
		t.Errorf("%+v", big)
	}
	if !strings.Contains(r.notes, "deployment/prod-dibs-serve -- dibs doctor") || !strings.Contains(r.notes, "Worker mail does the tasks of mail, slow") {
		t.Errorf("the notes:\n%s", r.notes)
	}
	j := r.all["Job prod-dibs-init"]
	if j.GetAnnotations()["helm.sh/hook"] != "pre-install,pre-upgrade" || !slices.Equal(r.pods()["Job prod-dibs-init"].Spec.Containers[0].Args, []string{"init"}) {
		t.Errorf("%+v", j)
	}
}

// The store's password stands in Secrets alone, and nothing that could be compared with it anywhere else.
func TestTheChartHidesThePassword(t *testing.T) {
	of := func(password string) (rendering, map[string]string) {
		r, err := rendered("prod", "store: {url: 'redis://:"+password+"@cache/0'}\nserve: {manifest: \"version: 1\"}\n")
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for name, o := range r.all {
			b, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(b)
		}
		return r, texts
	}
	r, one := of("s3cret")
	_, other := of("0ther")
	for name, text := range one {
		s, is := r.all[name].(*corev1.Secret)
		switch {
		case is && string(s.Data["store"]) != "redis://:s3cret@cache/0":
			t.Errorf("%s: %q", name, s.Data)
		case !is && text != other[name]:
			t.Errorf("%s depends on the password", name)
		}
	}
	if len(one) != 6 { // with a Secret for good, and one for the hook
		t.Errorf("%v", slices.Sorted(maps.Keys(one)))
	}
}

// What cannot work is refused with what is wrong and what to do.
func TestTheChartRefuses(t *testing.T) {
	for values, says := range map[string]string{
		"": "the pods need a store",
		"store: {url: 'redis://x', existingSecret: s}":                                                                                 "set one of them",
		"store: {url: /var/lib/dibs}":                                                                                                  "pods share no directory",
		"store: {url: 'http://x'}":                                                                                                     "want one address of a server",
		"store: {url: \"redis://a\\nredis://b\"}":                                                                                      "want one address of a server",
		"store: {existingSecret: s}":                                                                                                   "--set-file serve.manifest=jobs.yaml",
		"store: {existingSecret: s}\nserve: {manifest: x, existingConfigMap: z}":                                                       "set one of them",
		"store: {existingSecret: s}\nserve: {manifest: '" + strings.Repeat("x", 1_000_001) + "'}":                                      "a ConfigMap holds 1 MiB",
		"store: {existingSecret: s}\nserve: {enabled: false}":                                                                          "there is nothing to run",
		"store: {existingSecret: s}\nserve: {manifest: x, drain: 10m}":                                                                 "set terminationGracePeriodSeconds to 618 or more",
		"store: {existingSecret: s}\nserve: {manifest: x, podLabels: {helm.sh/chart: x}}":                                              "the chart sets helm.sh/chart itself",
		"store: {existingSecret: s}\nserve: {manifest: x}\nfullnameOverride: 'a\"b'":                                                   "fullnameOverride",
		"store: {existingSecret: s}\nserve: {manifest: x}\nsecurityContext: {runAsUser: 0}":                                            "runAsUser",
		"store: {existingSecret: s}\nserve: {manifest: x}\nsecurityContext: {runAsNonRoot: false}":                                     "runAsNonRoot",
		"store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {a: {queues: [--store=x], command: [c]}}":                       "queues",
		"store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {a: {queues: [q], command: [c], grace: 30s}}":                   "workers.a: after SIGTERM work may go on for 30s",
		"store: {existingSecret: s}\nserve: {replica: 3}":                                                                              "replica",
		"store: {existingSecret: s}\nserve: {manifest: x, drain: 12}":                                                                  "drain",
		"store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {a: {queues: [q]}}":                                             "command",
		"store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {A_B: {queues: [q], command: [c]}}":                             "A_B",
		"store: {existingSecret: s}\nserve: {enabled: false}\nworkers: {" + strings.Repeat("w", 60) + ": {queues: [q], command: [c]}}": "give it a shorter name",
	} {
		if _, err := rendered("prod", values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v; want %q", values, err, says)
		}
	}
}

// Every store that is a server is one for the chart, and no other is.
func TestTheChartKnowsTheStores(t *testing.T) {
	for _, scheme := range store.Schemes {
		_, err := rendered("prod", "store: {url: '"+scheme+"://x/y'}\nserve: {manifest: x}")
		if shared := scheme != "file" && scheme != "memory"; shared != (err == nil) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// Two releases in a namespace have no name in common, and a long name stays within what Kubernetes takes.
func TestTwoReleasesOfTheChart(t *testing.T) {
	long := strings.Repeat("r", 52)
	all := map[string]bool{}
	for _, release := range []string{"a", "dibs", "a-dibs", "dibs-work", "dibs-dibs", long, long + "x"} {
		r, err := rendered(release, usual+"  serve: {queues: [q], command: [c]}\n")
		if err != nil {
			t.Fatal(err)
		}
		allowed(t, r)
		for name := range r.all {
			if all[name] {
				t.Errorf("two releases have %s", name)
			}
			all[name] = true
		}
	}
}
