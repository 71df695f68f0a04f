package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/kubernetes"
)

func entry(job string, when ...string) deploy.Entry {
	return deploy.Entry{ID: deploy.ID{App: "shop", Job: job}, When: when, Command: []string{"/usr/bin/dibs", "trigger", "shop/" + job, "$(X)"},
		Env: map[string]string{"A": "b", "EMPTY": "", "DIBS_STORE_FILE": kubernetes.StorePath},
		Container: &deploy.Container{Image: "shop:1", Manifest: `{"version":1}`, Secrets: []deploy.Secret{
			{Ref: "file:" + kubernetes.StorePath, Name: "dibs-shop", Key: "store"}, {Ref: "env:TOKEN", Name: "dibs-shop", Key: "TOKEN"}, {Ref: "file:/etc/api/key", Name: "other", Key: "key"}}}}
}

func install(entries ...deploy.Entry) deploy.Install {
	return deploy.Install{App: "shop", Entries: entries}
}

func apply(t *testing.T, c deploy.Target, r deploy.Request) *deploy.Plan {
	t.Helper()
	p, err := deploy.Apply(t.Context(), c, r, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func actions(p *deploy.Plan) string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, string(s.Action)+" "+s.Entry)
	}
	return strings.Join(all, ", ")
}

// as is what somebody else writes with server-side apply, force and all, or makes.
func (s *apiServer) as(manager string, o map[string]any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: o}
	u.SetAPIVersion("batch/v1")
	u.SetKind("CronJob")
	live := s.objects[u.GetName()]
	is := live
	if is == nil {
		is = &batchv1.CronJob{}
		is.Name = u.GetName()
	}
	is.APIVersion, is.Kind, is.Namespace = "batch/v1", "CronJob", namespace
	u.SetNamespace(namespace)
	n, err := s.manager.Apply(is.DeepCopy(), u, manager, true)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.store(live, n.(*batchv1.CronJob), false, manager); err != nil {
		s.t.Fatal(err)
	}
}

// only is the one object that is there.
func (s *apiServer) only() *batchv1.CronJob {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.objects) != 1 {
		s.t.Fatalf("%d objects", len(s.objects))
	}
	for _, o := range s.objects {
		return o
	}
	return nil
}

// What Kubernetes itself does to a pod is no failure of the job: its tick is fired again. Everything else ends the
// Job.
func TestAnEvictedPodIsReplaced(t *testing.T) {
	s, c := serve(t)
	apply(t, c, install(entry("mail", "15 4 1 * * Europe/Berlin")))
	job := s.only().Spec.JobTemplate.Spec
	if p := job.PodFailurePolicy; p == nil || len(p.Rules) != 1 || p.Rules[0].Action != batchv1.PodFailurePolicyActionIgnore || p.Rules[0].OnExitCodes != nil ||
		len(p.Rules[0].OnPodConditions) != 1 || p.Rules[0].OnPodConditions[0] != (batchv1.PodFailurePolicyOnPodConditionsPattern{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}) {
		t.Errorf("%+v", p)
	}
	if *job.BackoffLimit != 0 || job.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%v, %s: a policy for pods needs Never, and dibs retries by itself", *job.BackoffLimit, job.Template.Spec.RestartPolicy)
	}
}

func named(name string, spec map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}
}

// The way of an entry: made, left alone by a second apply, updated in place, edited by hand and taken back, renamed,
// given back, adopted, pruned.
func TestTheWayOfAnEntry(t *testing.T) {
	s, c := serve(t)
	e := entry("mail", "15 4 1 * * Europe/Berlin")
	if got := actions(apply(t, c, install(e))); got != "create shop/mail#0" {
		t.Fatal(got)
	}
	o := s.only()
	uid, name := o.UID, o.Name
	if s.take(); len(name) > 52 || *o.Spec.TimeZone != "Europe/Berlin" || o.Spec.Schedule != "15 4 1 * *" {
		t.Errorf("%+v", o.Spec)
	}
	restricted(t, o)
	if p := apply(t, c, install(e)); actions(p) != "unchanged shop/mail#0" || p.Changes() || s.take() != "" {
		t.Errorf("a second apply: %s, %s, writes %q", actions(p), p.Diff, s.take())
	}
	e.When[0] = "15 5 1 * * Europe/Berlin"
	if p := apply(t, c, install(e)); actions(p) != "update shop/mail#0" || s.take() != "apply "+name || s.only().UID != uid {
		t.Errorf("%s", actions(p))
	}

	// Whoever changes a field, or adds one, has edited it by hand.
	for manager, spec := range map[string]map[string]any{"kubectl-patch": {"suspend": true}, "kubectl-edit": {"schedule": "* * * * *"}} {
		s.as(manager, named(name, spec))
		p := apply(t, c, install(e))
		if actions(p) != "edited shop/mail#0" || p.Clean() || s.only().Generation == 0 {
			t.Errorf("%s: %s", manager, actions(p))
		}
		over := install(e)
		over.Overwrite = true
		apply(t, c, over)
		if p := apply(t, c, install(e)); !p.Clean() || *s.only().Spec.Suspend || s.only().Spec.Schedule != "15 5 1 * *" {
			t.Errorf("%s: after overwrite %s\n%s", manager, actions(p), p.Diff)
		}
	}
	// What others have in the metadata is theirs.
	s.as("argocd", map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"team": "a"}}})
	if p := apply(t, c, install(e)); !p.Clean() {
		t.Error(actions(p))
	}
	renamed := e
	renamed.App = "store"
	apply(t, c, deploy.Install{App: "store", Formerly: []string{"shop"}, Entries: []deploy.Entry{renamed}})
	if o := s.only(); o.Name != name || o.UID != uid || o.Labels["dibs.run/app"] != "store" || o.Labels["team"] != "a" {
		t.Errorf("%+v", o.ObjectMeta)
	}

	spec := s.only().Spec
	apply(t, c, deploy.Eject{App: "store"})
	if o := s.only(); o.Labels["dibs.run/app"] != "" || len(o.Annotations) > 0 || len(o.ManagedFields) > 0 || !sameJSON(o.Spec, spec) {
		t.Errorf("%+v", o.ObjectMeta)
	}
	if got := actions(apply(t, c, deploy.Adopt{Entries: []deploy.Entry{renamed}})); got != "adopt store/mail#0" || s.only().UID != uid {
		t.Error(got)
	}
	if p := apply(t, c, deploy.Install{App: "store", Entries: []deploy.Entry{renamed}}); !p.Clean() {
		t.Errorf("after adopt: %s\n%s", actions(p), p.Diff)
	}
	apply(t, c, deploy.Prune{App: "store"})
	if len(s.objects) != 0 {
		t.Error("it is still there")
	}
}

// Who applies the same fields beside dibs is in the way of its next apply: that is drift, and --overwrite ends it.
func TestAnotherApplier(t *testing.T) {
	s, c := serve(t)
	e := entry("mail", "15 4 1 * * Europe/Berlin")
	apply(t, c, install(e))
	s.as("argocd", named(s.only().Name, map[string]any{"schedule": "15 4 1 * *", "timeZone": "Europe/Berlin", "failedJobsHistoryLimit": 3,
		"successfulJobsHistoryLimit": 3, "jobTemplate": map[string]any{"spec": map[string]any{"backoffLimit": 0}}}))
	if p := apply(t, c, install(e)); p.Clean() || !strings.Contains(p.Steps[0].Reason, `"argocd" has set spec.schedule; and 2 more fields`) {
		t.Errorf("%s: %s", actions(p), p.Steps[0].Reason)
	}
	e.When[0] = "15 5 1 * * Europe/Berlin"
	over := install(e)
	over.Overwrite = true
	apply(t, c, over)
	if p := apply(t, c, install(e)); !p.Clean() || s.only().Spec.Schedule != "15 5 1 * *" {
		t.Errorf("%s\n%s", actions(p), p.Diff)
	}
}

// A mark that somebody changed is written again where it still says whose it is, and else nobody's any more.
func TestAChangedMark(t *testing.T) {
	s, c := serve(t)
	e := entry("mail", "15 4 1 * * Europe/Berlin")
	apply(t, c, install(e))
	name := s.only().Name
	s.as("kubectl", map[string]any{"metadata": map[string]any{"name": name, "annotations": map[string]any{"dibs.run/spec": "0011"}}})
	if p := apply(t, c, install(e)); actions(p) != "update shop/mail#0" {
		t.Error(actions(p))
	}
	if p := apply(t, c, install(e)); !p.Clean() {
		t.Errorf("%s\n%s", actions(p), p.Diff)
	}
	s.as("kubectl", map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"dibs.run/app": "store"}}})
	for _, app := range []string{"shop", "store"} {
		if p := apply(t, c, deploy.Prune{App: app, Overwrite: true}); p.Changes() || s.only().Name != name {
			t.Errorf("%s: %s", app, actions(p))
		}
	}
	if p := apply(t, c, deploy.Adopt{Entries: []deploy.Entry{e}}); actions(p) != "adopt shop/mail#0" || s.only().Labels["dibs.run/app"] != "shop" {
		t.Error(actions(p))
	}
}

// A CronJob that is being deleted is not installed, and its name is not free yet.
func TestWhatIsBeingDeleted(t *testing.T) {
	s, c := serve(t)
	e := entry("mail", "15 4 1 * * Europe/Berlin")
	apply(t, c, install(e))
	now := metav1.Now()
	s.only().DeletionTimestamp = &now
	if _, err := deploy.Apply(t.Context(), c, install(e), ""); err == nil || !strings.Contains(err.Error(), "is being deleted: apply again") {
		t.Error(err)
	}
	s.take()
	if p := apply(t, c, deploy.Prune{App: "shop"}); p.Changes() || len(p.Foreign) > 0 || s.take() != "" {
		t.Errorf("%s, %v", actions(p), p.Foreign)
	}
}

// An adopt that ends half way can be done again, after each of its writes.
func TestAdoptIsInterrupted(t *testing.T) {
	for until := range 3 {
		s, c := serve(t)
		e := entry("mail", "15 4 * * 1-5 Europe/Berlin")
		s.as("cronix", map[string]any{"metadata": map[string]any{"name": "cronix-shop-mail-0", "labels": map[string]any{"cronix.dev/managed": "true", "cronix.dev/app": "shop",
			"cronix.dev/job": "mail", "cronix.dev/index": "0", "team": "a"}}, "spec": map[string]any{"schedule": "0 0 * * 1", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "x"}}}}}}}})
		writes := 0
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" {
				return false
			}
			if writes++; writes > until {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		}
		_, err := deploy.Apply(t.Context(), c, deploy.Adopt{Entries: []deploy.Entry{e}}, "")
		if s.before = nil; (err == nil) != (until == 2) {
			t.Errorf("%d writes: %v", until, err)
		}
		if p := apply(t, c, deploy.Adopt{Entries: []deploy.Entry{e}}); err != nil && actions(p) != "adopt shop/mail#0" {
			t.Errorf("%d writes, then: %s", until, actions(p))
		}
		o := s.only()
		if p := apply(t, c, install(e)); !p.Clean() || o.Labels["cronix.dev/managed"] != "" || o.Labels["team"] != "a" || o.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Name != "dibs" {
			t.Errorf("%d writes, then: %s\n%+v", until, p.Diff, o)
		}
	}
}

// What is rendered says the same to kubectl's reader of YAML, whatever words are in it.
func TestWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := entry("mail", "15 4 * * * Etc/UTC", "15 5 * * * Etc/UTC")
		words := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[-a-z0-9:#'"\n\t {}&*!|>%@,?_.~=<]{0,8}`)), 1, 5).Draw(t, "words")
		e.Command = append([]string{"/usr/bin/dibs"}, words...)
		text, err := kubernetes.Render([]deploy.Entry{e}, namespace)
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(text, "\n---\n")
		if len(documents) != 2 {
			t.Fatalf("%d documents:\n%s", len(documents), text)
		}
		for _, d := range documents {
			var o batchv1.CronJob
			if err := yaml.UnmarshalStrict([]byte(d), &o); err != nil {
				t.Fatalf("%v\n%s", err, d)
			}
			for i, w := range o.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command[1:] {
				if w != strings.ReplaceAll(words[i], "$", "$$") {
					t.Fatalf("%q is read as %q:\n%s", words[i], w, d)
				}
			}
		}
	})
}

// restricted holds a pod to the standard "restricted", and to what an entry promises.
func restricted(t *testing.T, o *batchv1.CronJob) {
	t.Helper()
	p := o.Spec.JobTemplate.Spec.Template.Spec
	sc := p.SecurityContext
	if p.HostNetwork || p.HostPID || p.HostIPC || sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot || sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", sc)
	}
	for _, c := range p.Containers {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) > 0 {
			t.Errorf("%+v", s)
		}
		if c.Command[3] != "$$(X)" {
			t.Errorf("Kubernetes would expand %q", c.Command)
		}
	}
	for _, v := range p.Volumes {
		if v.Secret == nil && v.DownwardAPI == nil && v.EmptyDir == nil {
			t.Errorf("%+v", v)
		}
	}
	if o.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || *o.Spec.JobTemplate.Spec.BackoffLimit != 0 || p.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", o.Spec)
	}
}

// After a hundred random applies, prunes, adopts and ejects what others have is the same to the byte.
func TestForeignCronJobsStay(t *testing.T) {
	s, c := serve(t)
	pod := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never",
		"containers": []any{map[string]any{"name": "x", "image": "x"}}}}}}
	for _, name := range []string{"backup", "dibs-shop-mail-0", "zz"} {
		s.as("helm", map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "Helm", "dibs.run/app": "shop"}},
			"spec": map[string]any{"schedule": "1 1 * * *", "jobTemplate": pod}})
	}
	foreign := func() string {
		all := map[string]any{}
		for _, name := range []string{"backup", "dibs-shop-mail-0", "zz"} {
			all[name] = s.objects[name]
		}
		b, _ := json.Marshal(all)
		return string(b)
	}
	before := foreign()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		var entries []deploy.Entry
		for _, job := range []string{"a", "b", "c-d"} {
			if random.IntN(2) == 0 {
				e := entry(job, fmt.Sprintf("%d 0 * * * Etc/UTC", random.IntN(60)))
				if random.IntN(2) == 0 {
					e.When = append(e.When, "0 1 25-31 3 * Etc/UTC")
				}
				entries = append(entries, e)
			}
		}
		in := deploy.Install{App: "shop", Entries: entries, Overwrite: true}
		apply(t, c, in)
		apply(t, c, deploy.Prune{App: "shop", Entries: entries, Overwrite: true})
		if random.IntN(3) == 0 && len(entries) > 0 {
			apply(t, c, deploy.Eject{App: "shop", Jobs: []string{entries[0].Job}})
			apply(t, c, deploy.Adopt{Entries: entries[:1]})
		}
		s.take()
		if p := apply(t, c, in); !p.Clean() || s.take() != "" {
			t.Fatalf("round %d: %s\n%s", n, actions(p), p.Diff)
		}
	}
	apply(t, c, deploy.Prune{App: "shop"})
	if len(s.objects) != 3 || foreign() != before {
		t.Errorf("before\n%s\nafter\n%s", before, foreign())
	}
}

// cronix's CronJob becomes dibs's in place, without its mark and its container; one that does what the job does too;
// one that differs stays, and the plan says why.
func TestAdopt(t *testing.T) {
	s, c := serve(t)
	box := func(extra map[string]any) map[string]any {
		b := map[string]any{"name": "main", "image": "shop:1", "command": []any{"php", "mail.php"}, "env": []any{map[string]any{"name": "A", "value": "b"}}}
		for k, v := range extra {
			b[k] = v
		}
		return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"restartPolicy": "OnFailure", "containers": []any{b}}}}}
	}
	e := entry("mail", "15 4 * * 1-5 Europe/Berlin")
	e.Plain = &deploy.Plain{When: e.When, Args: []string{"php", "mail.php"}, Env: map[string]string{"A": "b"}}
	for why, o := range map[string]map[string]any{
		"":                      {"schedule": "15 4 * * MON-FRI", "timeZone": "Europe/Berlin", "jobTemplate": box(nil)},
		"another schedule":      {"schedule": "15 4 * * MON-FRI", "jobTemplate": box(nil)},
		"another image":         {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "jobTemplate": box(map[string]any{"image": "shop:2"})},
		"resources":             {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "jobTemplate": box(map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": "1"}}})},
		"suspend":               {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "suspend": true, "jobTemplate": box(nil)},
		"labels of its Jobs":    {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "jobTemplate": with(box(nil), map[string]any{"labels": map[string]any{"a": "b"}})},
		"annotations of its":    {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "jobTemplate": with(box(nil), map[string]any{"annotations": map[string]any{"iam/role": "b"}})},
		"value of the variable": {"schedule": "15 4 * * 1-5", "timeZone": "Europe/Berlin", "jobTemplate": box(map[string]any{"env": []any{}})},
	} {
		s.as("kubectl", named("mailer", o))
		uid := s.only().UID
		p := apply(t, c, deploy.Adopt{Entries: []deploy.Entry{e}})
		if why != "" && (actions(p) != "unmatched shop/mail#0" || !strings.Contains(p.Steps[0].Reason, why)) {
			t.Errorf("%q: %s: %s", why, actions(p), p.Steps[0].Reason)
		}
		if why == "" {
			if got := apply(t, c, install(e)); actions(p) != "adopt shop/mail#0" || !got.Clean() || s.only().UID != uid || len(s.only().Spec.JobTemplate.Spec.Template.Spec.Containers) != 1 {
				t.Errorf("%s, then %s\n%s", actions(p), actions(got), got.Diff)
			}
		}
		s.mu.Lock()
		clear(s.objects)
		s.mu.Unlock()
	}

	s.as("cronix", map[string]any{"metadata": map[string]any{"name": "cronix-shop-mail-0", "labels": map[string]any{"cronix.dev/managed": "true", "cronix.dev/app": "shop",
		"cronix.dev/job": "mail", "cronix.dev/index": "0", "cronix.dev/hash": "0011"}}, "spec": map[string]any{"schedule": "0 0 * * 1", "timeZone": "UTC", "jobTemplate": box(nil)}})
	p := apply(t, c, deploy.Adopt{Entries: []deploy.Entry{e}})
	o := s.only()
	if actions(p) != "adopt shop/mail#0" || !strings.Contains(p.Steps[0].Reason, "it fired at 0 0 * * 1 Etc/UTC, and now fires at 15 4 * * 1-5 Europe/Berlin") ||
		o.Name != "cronix-shop-mail-0" || o.Labels["cronix.dev/managed"] != "" || o.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Name != "dibs" {
		t.Errorf("%s: %s\n%+v", actions(p), p.Steps[0].Reason, o)
	}
	if p := apply(t, c, install(e)); !p.Clean() {
		t.Errorf("%s\n%s", actions(p), p.Diff)
	}
}

// with gives a template of Jobs metadata for its pods.
func with(template, meta map[string]any) map[string]any {
	template["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = meta
	return template
}

// A server that refuses, at whatever write: the error names the entry and the cure, what was there is still there, and
// the next apply goes on.
func TestFaults(t *testing.T) {
	s, c := serve(t)
	a, b := entry("a", "1 1 * * * Etc/UTC"), entry("b", "1 1 * * * Etc/UTC", "2 2 * * * Etc/UTC")
	apply(t, c, install(a, b))
	a2, b2 := entry("a", "3 3 * * * Etc/UTC"), entry("b", "3 3 * * * Etc/UTC", "4 4 * * * Etc/UTC")
	refuse := func(code int, from int, says ...string) {
		t.Helper()
		n := 0
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			if n++; n < from {
				return false
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":"no \u001b way"}`, code)
			return true
		}
		_, err := deploy.Apply(t.Context(), c, install(a2, b2), "")
		s.before = nil
		if err == nil {
			t.Fatalf("%d from write %d on was overlooked", code, from)
		}
		for _, want := range append(says, c.String(), "no   way") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%d: %q does not say %q", code, err, want)
			}
		}
	}
	s.take()
	refuse(403, 1, "shop/a#0", "nothing was written", "need the verbs list, create, patch and delete")
	refuse(422, 3, "shop/b#0", "nothing was written") // the dry run of the last
	if s.take() != "" {
		t.Error("something was written")
	}
	refuse(403, 5, "shop/b#0") // the first two are written: a, and one of b's lines
	if p, err := deploy.Prepare(context.Background(), c, install(a2, b2)); err != nil || p.Clean() || strings.Contains(actions(p), "edited") {
		t.Errorf("what was interrupted is taken for an edit by hand: %v, %v", actions(p), err)
	}
	apply(t, c, install(a2, b2))
	if p := apply(t, c, install(a2, b2)); !p.Clean() {
		t.Error(actions(p))
	}

	// A server that is ill for a moment is asked again; a fire in between changes a version, and no text.
	n := 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if n++; r.Method == http.MethodPatch && n%2 == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
			return true
		}
		if r.Method == http.MethodPatch && n == 7 {
			for _, o := range s.objects {
				s.version++
				o.ResourceVersion = fmt.Sprint(s.version)
			}
		}
		return false
	}
	apply(t, c, install(a, b2))
	s.before = nil
	if p := apply(t, c, install(a, b2)); !p.Clean() {
		t.Error(actions(p))
	}
}

// Of two applies at once, one is refused where it would write over what the other wrote, though both are dibs.
func TestTwoAppliesAtOnce(t *testing.T) {
	s, c := serve(t)
	apply(t, c, install(entry("a", "1 1 * * * Etc/UTC")))
	second, err := kubernetes.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	other := true
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && other {
			other = false
			s.mu.Unlock()
			defer s.mu.Lock()
			if _, err := deploy.Apply(t.Context(), second, install(entry("a", "9 9 * * * Etc/UTC")), ""); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	if _, err := deploy.Apply(t.Context(), c, install(entry("a", "2 2 * * * Etc/UTC")), ""); !errors.Is(err, deploy.ErrChanged) || s.only().Spec.Schedule != "9 9 * * *" {
		t.Errorf("%v, %s", err, s.only().Spec.Schedule)
	}
}
