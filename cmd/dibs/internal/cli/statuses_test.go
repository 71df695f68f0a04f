package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-run/dibs/internal/test/testsize"
)

// invoke carries out a command line and returns its status, and what it printed.
func invoke(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	status = cli.Exec(t.Context(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// dies are the signals that kill a process which does not handle them, except those that stop it or dump core for a
// fault of the shell.
var dies = []int{1, 2, 3, 6, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 31, 34, 64}

// Each exit status is the command's own and none is taken for ours, and so is each signal: what a caller does next
// depends on it.
func TestEachStatusOfACommandIsItsOwn(t *testing.T) {
	testsize.Outside(t)
	store := t.TempDir()
	if status, _, errs := invoke(t, "init", "--store", store); status != 0 {
		t.Fatal(errs)
	}
	check := func(line string, want int) {
		t.Helper()
		status, out, errs := invoke(t, "run", "--store", store, "--key", "k", "--no-output", "--json", filepath.Join(store, "report"), "--", "/bin/sh", "-c", line)
		if status != want || strings.Contains(errs, "--help") || out != "" {
			t.Errorf("%s: status %d, want %d: %s%s", line, status, want, out, errs)
		}
		var report struct {
			Outcome string
			Status  int `json:"exit_status"`
		}
		b, err := os.ReadFile(filepath.Join(store, "report"))
		if err == nil {
			err = json.Unmarshal(b, &report)
		}
		if outcome := map[bool]string{true: "succeeded", false: "failed"}[want == 0]; err != nil || report.Outcome != outcome || report.Status != want {
			t.Errorf("%s: the report: %s, %v", line, b, err)
		}
	}
	for n := range 256 {
		check(fmt.Sprintf("exit %d", n), n)
	}
	for _, n := range dies {
		check(fmt.Sprintf("ulimit -c 0; kill -%d $$", n), 128+n)
	}
}

// samples are statuses that mean something to dibs, to shells or to systemd, and ends by a signal.
var samples = []int{0, 1, 2, 3, 4, 69, 75, 79, 124, 125, 126, 127, 128, 255, -9, -15}

// line is a command that ends like that, and the status that a shell would show.
func line(n int) (text string, status int) {
	if n < 0 {
		return fmt.Sprintf("kill %d $$", n), 128 - n
	}
	return fmt.Sprintf("exit %d", n), n
}

// written is a store and a manifest with a job for each of the samples.
func written(t *testing.T, schedule string) (store, manifest string) {
	t.Helper()
	store, manifest = t.TempDir(), filepath.Join(t.TempDir(), "jobs.yaml")
	if status, _, errs := invoke(t, "init", "--store", store); status != 0 {
		t.Fatal(errs)
	}
	text := "version: 1\napp: a\njobs:\n"
	for _, n := range samples {
		line, status := line(n)
		text += fmt.Sprintf("  - name: of-%d\n    schedule: %q\n    command: {shell: %q}\n    policy: {concurrency_scope: host}\n", status, schedule, line)
	}
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return store, manifest
}

// recorded reports whether the history of a job has a run with an attempt of that status.
func recorded(t *testing.T, store, job string, status int) bool {
	t.Helper()
	_, out, _ := invoke(t, "history", job, "--store", store, "-o", "json")
	if status == 0 {
		return strings.Contains(out, `"outcome": "succeeded"`)
	}
	return strings.Contains(out, `"outcome": "failed"`) && strings.Contains(out, fmt.Sprintf(`"status": %d`, status))
}

// A trigger says whether the job succeeded, and records its status.
func TestEachStatusOfATriggeredCommandIsRecorded(t *testing.T) {
	store, manifest := written(t, "@hourly")
	for _, n := range samples {
		line, status := line(n)
		name := fmt.Sprintf("of-%d", status)
		want := 2
		if status == 0 {
			want = 0
		}
		if got, _, errs := invoke(t, "trigger", "a."+name, "--manifest", manifest, "--now", "--store", store); got != want || strings.Contains(errs, "--help") {
			t.Errorf("trigger of %s: status %d, want %d: %s", line, got, want, errs)
		}
		if !recorded(t, store, "a/"+name, status) {
			t.Errorf("history of %s does not have the status %d", line, status)
		}
	}
}

// during carries out a command that goes on until done reports true, or for two minutes.
func during(t *testing.T, done func() bool, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs strings.Builder
	ended := make(chan int, 1)
	go func() { ended <- cli.Exec(ctx, args, strings.NewReader(""), &out, &errs) }()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("it takes too long")
			break
		}
	}
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("%q: status %d: %s", args, status, errs.String())
	}
}

// A server records each status.
func TestEachStatusOfAServedCommandIsRecorded(t *testing.T) {
	store, manifest := written(t, "*/2 * * * * *")
	missing := slices.Clone(samples)
	during(t, func() bool {
		missing = slices.DeleteFunc(missing, func(n int) bool {
			_, status := line(n)
			return recorded(t, store, fmt.Sprintf("a/of-%d", status), status)
		})
		return len(missing) == 0
	}, "serve", manifest, "--store", store)
	if len(missing) > 0 {
		t.Errorf("not recorded: %v", missing)
	}
}

// For a worker 0 is a success, 75 no attempt, and all others are failures that say how the command ended.
func TestEachStatusOfAWorkersCommandCounts(t *testing.T) {
	store, _ := written(t, "@hourly")
	for _, n := range samples {
		text, status := line(n)
		if got, _, errs := invoke(t, "task", "enqueue", fmt.Sprintf("of-%d", status), "--queue", "q", "--max-attempts", "1", "--args", strconv.Quote(text), "--store", store); got != 0 {
			t.Fatal(errs)
		}
	}
	var tasks []struct{ Kind, State, Error string }
	during(t, func() bool {
		_, out, _ := invoke(t, "task", "list", "--queue", "q", "--store", store, "-o", "json")
		return json.Unmarshal([]byte(out), &tasks) == nil && len(tasks) == len(samples) &&
			!slices.ContainsFunc(tasks, func(t struct{ Kind, State, Error string }) bool {
				return t.State == "available" || t.State == "running"
			})
	}, "work", "q", "--store", store, "--slots", "4", "--postpone", "1h", "--", "/bin/sh", "-c", `line=$(sed 's/"//g'); eval "$line"`)
	for _, task := range tasks {
		want := "failed"
		switch task.Kind {
		case "of-0":
			want = "succeeded"
		case "of-75":
			want = "retryable"
		}
		if task.State != want {
			t.Errorf("%s: %s, want %s", task.Kind, task.State, want)
		}
	}
}
