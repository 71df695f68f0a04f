package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/schedulerapi"
)

// The commands, against the API: each with its exit status, and no key in what they print.
func TestDeployToEventBridge(t *testing.T) {
	s := schedulerapi.Start(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const jobs = "version: 1\napp: shop\ndefaults: {policy: {concurrency_scope: global}}\njobs:\n" +
		"  - {name: invoices, schedule: 15 4 1 * *, timezone: Asia/Tokyo, command: ['true']}\n"
	manifest := write("jobs.yaml", jobs+"  - {name: report, schedule: '0 0 13 * FRI', command: ['true']}\n")
	to := "eventbridge:" + write("ecs.yaml", `region: eu-central-1
endpoint: `+s.URL+`
cluster: arn:aws:ecs:eu-central-1:123456789012:cluster/jobs
task_definition: arn:aws:ecs:eu-central-1:123456789012:task-definition/shop
container: app
subnets: [subnet-1]
role: arn:aws:iam::123456789012:role/fire
dead_letter_queue: arn:aws:sqs:eu-central-1:123456789012:dead
`)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "THE-SECRET")
	t.Setenv("AWS_SESSION_TOKEN", "THE-TOKEN")
	t.Setenv("DIBS_STORE", "redis://:hunter2@here/0") // this host's, and not the container's

	dibs := func(status int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		got := Exec(context.Background(), append(args, "--to", to), strings.NewReader(""), &out, &out)
		text := out.String()
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%v: status %d, want %d and %q:\n%s", args, got, status, says, text)
		}
		if strings.Contains(text, "THE-") || strings.Contains(text, "hunter2") {
			t.Errorf("%v prints a secret:\n%s", args, text)
		}
	}
	dibs(2, "+++ dibs-shop/invoices.0.1", "plan", manifest)
	dibs(0, "2 created", "apply", manifest)
	changes := s.Changes()
	dibs(0, "nothing to do: 2 unchanged", "apply", manifest)
	dibs(0, "nothing to do", "drift", manifest)
	if s.Changes() != changes {
		t.Error("a second apply wrote")
	}
	s.Put("dibs-shop", "invoices.0.1", strings.Replace(s.Get("dibs-shop", "invoices.0.1"), "15 4 1", "16 4 1", 1))
	dibs(5, "edited  shop/invoices#0", "drift", manifest)
	dibs(5, "edited by hand, and kept", "apply", manifest)
	dibs(0, "1 updated", "apply", manifest, "--overwrite")
	write("jobs.yaml", jobs)
	dibs(0, "stale   shop/report#0", "apply", manifest)
	dibs(0, "1 deleted", "prune", manifest)
	dibs(0, "1 ejected", "eject", "shop")
	dibs(0, "1 adopted", "adopt", manifest)
	write("jobs.yaml", strings.Replace(jobs, "app: shop", "app: store", 1))
	dibs(0, "eventbridge eu-central-1/dibs-shop: 1 deleted", "apply", manifest, "--formerly", "shop")
	if names := s.Names("dibs-store"); len(names) != 1 || len(s.Names("dibs-shop")) != 0 {
		t.Error(names, s.Names("dibs-shop"))
	}
	s.Fail = func(string, int) *schedulerapi.Fault {
		return &schedulerapi.Fault{Status: 403, Code: "AccessDeniedException"}
	}
	dibs(1, "let these credentials call scheduler:GetScheduleGroup", "plan", manifest)
}
