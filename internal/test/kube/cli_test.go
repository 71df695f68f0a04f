package kube

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	jsonstrict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/dibs-run/dibs/internal/test/testbin"
)

const jobs = `version: 1
app: shop
defaults: {timezone: Europe/Berlin, policy: {concurrency_scope: global}}
jobs:
  - {name: invoices, schedule: '15 4 1 * *', command: [php, 'in $(X).php'], env_from: {TOKEN: 'env:SHOP_TOKEN', KEY: 'file:/run/api.key'}}
  - {name: night, schedule: '30 2 * * *', command: {shell: 'echo $HOME'}, policy: {concurrency: Allow}}
`

// The command line: each exit status, no value of a secret in what is written, and objects that are Kubernetes' own.
func TestTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	dibs, err := testbin.Dibs(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t)
	m := filepath.Join(dir, "jobs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(m, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(jobs)
	told := func(status int, args ...string) (stdout, all string) {
		t.Helper()
		cmd := exec.Command(dibs, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + os.Getenv("KUBECONFIG"),
			"DIBS_STORE=redis://:sesame@127.0.0.1:1/0", "DIBS_DIR=" + dir, "SHOP_TOKEN=sesame"}
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		all = out.String() + errs.String()
		var exit *exec.ExitError
		if code := cmd.ProcessState.ExitCode(); code != status || err != nil && !errors.As(err, &exit) || strings.Contains(all, "sesame") {
			t.Errorf("%q exits %d, not %d: %v\n%s", args, code, status, err, all)
		}
		return out.String(), all
	}
	run := func(status int, args ...string) string {
		t.Helper()
		_, all := told(status, args...)
		return all
	}
	to := []string{m, "--to", "kubernetes", "--image", "shop:42"}
	with := func(command string, more ...string) []string {
		return append(append([]string{command}, to...), more...)
	}

	run(2, with("plan")...)
	run(0, with("apply", "--dry-run")...)
	if len(s.objects) > 0 {
		t.Fatal("a plan wrote")
	}
	if out := run(0, with("apply")...); !strings.Contains(out, "2 created") || !strings.Contains(out, "dibs trigger runs only the ticks") {
		t.Error(out)
	}
	s.take()
	if out := run(0, with("apply")...); !strings.Contains(out, "kubernetes:test/"+namespace+": nothing to do: 2 unchanged") || s.take() != "" {
		t.Error(out)
	}
	run(0, with("plan")...)
	run(0, with("drift")...)
	for _, o := range s.objects {
		b, _ := yaml.Marshal(o)
		if strings.Contains(string(b), "sesame") || o.Labels["dibs.run/job"] == "invoices" && o.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent ||
			o.Labels["dibs.run/job"] == "night" && o.Spec.ConcurrencyPolicy != batchv1.AllowConcurrent {
			t.Error(string(b))
		}
	}
	for name := range s.objects {
		s.as("kubectl-edit", named(name, map[string]any{"suspend": true}))
	}
	if out := run(5, with("drift")...); !strings.Contains(out, `"kubectl-edit" has set spec.suspend`) {
		t.Error(out)
	}
	run(5, with("apply")...)
	run(0, with("apply", "--overwrite")...)
	run(0, with("drift")...)

	// What is rendered is what is installed.
	rendered, _ := told(0, with("plan", "--render", "yaml")...)
	for text := range strings.SplitSeq(rendered, "\n---\n") {
		b, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var o batchv1.CronJob
		if unknown, err := jsonstrict.UnmarshalStrict(b, &o); err != nil || len(unknown) > 0 {
			t.Fatal(err, unknown)
		}
		fillIn(&o)
		if is := s.objects[o.Name]; is == nil || !sameJSON(is.Spec, o.Spec) || !sameJSON(is.Annotations, o.Annotations) || !sameJSON(is.Labels, o.Labels) {
			t.Errorf("%s: it is installed as %+v", text, is)
		}
	}

	for change, says := range map[string]string{
		"schedule: '*/10 * * * * *'":                                "shop/invoices: */10 * * * * *: Kubernetes fires at whole minutes",
		"schedule: '15 4 1 * *', user: www-data":                    "shop/invoices: it has a user or a group",
		"schedule: '15 4 1 * *', policy: {concurrency_scope: host}": "shop/invoices: its concurrency_scope is host",
	} {
		write(strings.Replace(jobs, "schedule: '15 4 1 * *'", change, 1))
		if out := run(2, with("apply")...); !strings.Contains(out, says) {
			t.Errorf("%q: %s", change, out)
		}
	}
	one, _, _ := strings.Cut(jobs, "  - {name: night")
	write(one)
	run(0, with("prune")...)
	run(0, "eject", "shop", "--to", "kubernetes")
	if o := s.only(); o.Labels["dibs.run/app"] != "" {
		t.Errorf("%+v", o.ObjectMeta)
	}
	run(0, with("adopt")...)
	run(0, with("drift")...)
	run(0, "prune", "--all", "shop", "--to", "kubernetes")
	if len(s.objects) > 0 {
		t.Error("something is left")
	}
}
