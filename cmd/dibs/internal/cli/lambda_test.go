package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/lambdaapi"
	"github.com/dibs-run/dibs/internal/test/testserver"
)

// A function fires each tick once, whatever Lambda invokes again, stops a run before the function's time is up, and
// reports what failed.
func TestAFunctionFiresTicks(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "jobs.yaml")
	text := `{version: 1, app: shop, defaults: {policy: {concurrency_scope: global, starting_deadline_seconds: 86400}}, jobs: [
		{name: works, schedule: "* * * * *", command: {shell: echo ran}},
		{name: fails, schedule: "* * * * *", command: ["false"]},
		{name: slow, schedule: "* * * * *", command: [sleep, "100"], policy: {stop_grace_seconds: 1}},
		{name: own, schedule: "* * * * *", command: ["true"], policy: {concurrency_scope: host}}]}`
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api := lambdaapi.New(t)
	t.Setenv("AWS_LAMBDA_RUNTIME_API", api.Address())
	t.Setenv("DIBS_MANIFEST", manifest)
	t.Setenv("DIBS_DIR", filepath.Join(dir, "host"))
	t.Setenv("DIBS_STORE", testserver.Redis(t)+"?namespace=lambda-"+rand.Text())
	var stdout, stderr bytes.Buffer
	if status := Exec(t.Context(), []string{"init"}, strings.NewReader(""), &stdout, &stderr); status != 0 {
		t.Fatal(stderr.String())
	}
	ended := make(chan int, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { ended <- Exec(ctx, nil, strings.NewReader(""), &stdout, &stderr) }() // as bootstrap, without arguments
	tick := time.Now().Add(-time.Minute).Truncate(time.Minute).UTC().Format(time.RFC3339)
	later := time.Now().Add(time.Hour).Truncate(time.Minute).UTC().Format(time.RFC3339)
	event := func(job string) string { return fmt.Sprintf(`{"job":%q,"tick":%q}`, job, tick) }
	for _, c := range []struct {
		event            string
		timeout          time.Duration
		outcome, failure string
		says             string
	}{
		{event("shop.works"), time.Minute, "succeeded", "", ""},
		{event("shop.works"), time.Minute, "duplicate", "", ""}, // Lambda hands an event over at least once
		{event("shop.fails"), time.Minute, "", "Dibs.Failed", "shop/fails: failed"},
		{event("shop.fails"), time.Minute, "duplicate", "", ""},
		{event("shop.slow"), 6 * time.Second, "", "Dibs.Canceled", "shutdown"},
		{event("shop.works"), time.Second, "", "Dibs.Refused", "the function's timeout leaves no time"},
		{event("shop.own"), time.Minute, "", "Dibs.Refused", "concurrency_scope is host"},
		{event("shop.none"), time.Minute, "", "Dibs.Refused", "declares no job"},
		{`{"job":"shop.works","tick":"` + later + `"}`, time.Minute, "", "Dibs.Refused", "in the future"},
		{event("none"), time.Minute, "", "Dibs.BadEvent", `want {"job"`},
		{`{"job":"shop.works"}`, time.Minute, "", "Dibs.BadEvent", `want {"job"`},
		{`{"job":"shop.works","tick":"` + tick + `","args":["--store"]}`, time.Minute, "", "Dibs.BadEvent", `want {"job"`},
		{`[`, time.Minute, "", "Dibs.BadEvent", `want {"job"`},
		{`{"job":"shop.works","tick":"<aws.scheduler.scheduled-time>"}`, time.Minute, "", "Dibs.BadEvent", `want {"job"`},
		{`{"job":"shop/works","tick":"2020-01-01T00:00:30Z"}`, time.Minute, "not_due", "", ""},
	} {
		api.Invoke(c.event, c.timeout)
		got := api.Wait()
		var rep struct{ Key, Outcome, Tick string }
		if c.outcome != "" {
			if err := json.Unmarshal([]byte(got.Body), &rep); err != nil {
				t.Errorf("%s: %+v, %v", c.event, got, err)
			}
		}
		if rep.Outcome != c.outcome || got.Type != c.failure || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", c.event, got)
		}
	}
	stop() // as SIGTERM does
	select {
	case status := <-ended:
		if status != 0 || !strings.Contains(stdout.String(), "ran\n") {
			t.Errorf("status %d\n%s%s", status, &stdout, &stderr)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// A function that can do nothing says so before its first invocation.
func TestAFunctionWithoutAManifest(t *testing.T) {
	api := lambdaapi.New(t)
	t.Setenv("AWS_LAMBDA_RUNTIME_API", api.Address())
	t.Setenv("DIBS_MANIFEST", "")
	t.Setenv("DIBS_DIR", t.TempDir())
	var stdout, stderr bytes.Buffer
	if status := Exec(t.Context(), nil, strings.NewReader(""), &stdout, &stderr); status != exitUsage {
		t.Errorf("status %d: %s", status, &stderr)
	}
	if got := api.Wait(); got.ID != "init" || !strings.Contains(got.Message, "no manifest") {
		t.Errorf("%+v", got)
	}
	if status := Exec(t.Context(), []string{"lambda", "x"}, strings.NewReader(""), &stdout, &stderr); status != exitUsage || !strings.Contains(stderr.String(), "want no arguments") {
		t.Errorf("status %d: %s", status, &stderr)
	}
	t.Setenv("AWS_LAMBDA_RUNTIME_API", "")
	if status := Exec(t.Context(), []string{"lambda"}, strings.NewReader(""), &stdout, &stderr); status != exitUsage || !strings.Contains(stderr.String(), "only Lambda") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}
