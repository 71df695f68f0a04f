//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// taskView is what `dibs task list -o json` says.
type taskView struct {
	ID          int64
	Kind, State string
	Queue       string
	Args        any
	Priority    int
	Tags        []string
	MaxAttempts int `json:"max_attempts"`
	Unique      struct {
		Key    string
		Shared bool
		Window int64
	}
}

// enqueues is a manifest with a job whose ticks enqueue a task.
func (w *world) enqueues(schedule, more string) string {
	w.t.Helper()
	return w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": "mail", "schedule": %q,
		"task": {"kind": "mail", "queue": "q", "args": {"to": [7, "é"]}, "priority": 3, "max_attempts": 4, "tags": ["nightly"]%s}}]}`, schedule, more))
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(w.path(name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) tasks(flags ...string) (all []taskView) {
	w.t.Helper()
	w.decode(&all, append([]string{"task", "list", "-o", "json"}, flags...)...)
	return all
}

// Rule Q9: two servers and a worker; one of the servers is killed. Each tick that succeeded has enqueued one
// task, no tick two, and each task is done once. History shows which task it was.
// Holds: Q9.
func TestATickEnqueuesATask(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.enqueues("@every 3s", "")
		servers := []*process{w.serve(m), w.serve(m)}
		worker := w.dibs("work", "q", "--", "/bin/sh", "-c", `echo "$DIBS_TASK $(cat)" >> `+w.path("done"))
		done := func() int { return strings.Count(w.read("done"), "\n") }
		enough := func(n int) func() bool { return func() bool { return done() >= n } }
		says := func() string { return fmt.Sprintf("%d tasks done\n%s\n%s", done(), servers[1], worker) }
		eventually(t, patience, enough(2), says)
		servers[0].signal(syscall.SIGKILL)
		before := done()
		eventually(t, patience, enough(before+2), says)
		stop(servers[1])
		eventually(t, patience, func() bool { return len(w.tasks()) == len(w.tasks("--state", "succeeded")) }, says)
		stop(worker)

		byKey := map[string]taskView{}
		for _, k := range w.tasks() {
			if _, twice := byKey[k.Unique.Key]; twice {
				t.Errorf("two tasks of %s", k.Unique.Key)
			}
			byKey[k.Unique.Key] = k
			if k.Kind != "mail" || k.Queue != "q" || k.Priority != 3 || k.MaxAttempts != 4 || fmt.Sprint(k.Args) != "map[to:[7 é]]" || fmt.Sprint(k.Tags) != "[nightly]" {
				t.Errorf("the task is %+v", k)
			}
			if n := strings.Count("\n"+w.read("done"), fmt.Sprintf("\n%d {\"to\":[7,\"é\"]}\n", k.ID)); n != 1 {
				t.Errorf("task %d was done %d times:\n%s", k.ID, n, w.read("done"))
			}
		}
		succeeded, last := 0, ""
		for _, e := range w.history("app/mail") {
			if e.Tick == nil || e.Outcome != "succeeded" {
				continue
			}
			succeeded++
			last = e.Tick.UTC().Format(time.RFC3339)
			k, ok := byKey["app/mail@"+e.Tick.UTC().Format(time.RFC3339)]
			if !ok {
				t.Errorf("tick %s succeeded and enqueued nothing", e.Tick)
				continue
			}
			if out := w.must("history", "--run", e.Runs[len(e.Runs)-1].RunID); !strings.Contains(out, fmt.Sprintf("its task is %d,", k.ID)) {
				t.Errorf("history does not name task %d:\n%s", k.ID, out)
			}
		}
		if succeeded < 3 {
			t.Errorf("only %d ticks succeeded:\n%s", succeeded, servers[1])
		}
		if out := w.must("explain", "app/mail", "--at", last); !strings.Contains(out, "It enqueued task ") {
			t.Errorf("explain says\n%s", out)
		}
	})
}

// A run without a tick has its id as its identity; what expires, is blocked or is delayed is so as the manifest says.
// Holds: Q9.
func TestATriggeredJobEnqueuesATask(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.enqueues("@yearly", `, "delay_seconds": 3600, "expires_seconds": 7200, "retry_seconds": 10800, "backoff_seconds": [1, 60], "limit": {"key": "k", "max": 2}`)
		scope := "global"
		if w.name == "file" {
			scope = "host"
		}
		trigger := func() string { return w.must("job", "trigger", "app/mail", "--manifest", m, "--default-scope", scope) }
		for range 2 {
			if out := trigger(); !strings.Contains(out, "enqueued task ") {
				t.Errorf("it prints %q", out)
			}
		}
		tasks := w.tasks()
		if len(tasks) != 2 {
			t.Fatalf("two runs by hand enqueued %+v", tasks)
		}
		for i, e := range w.history("app/mail") {
			if key := "app/mail@" + e.Runs[0].RunID; tasks[1-i].Unique.Key != key || tasks[i].State != "scheduled" {
				t.Errorf("task %+v; want the key %s", tasks[1-i], key)
			}
		}
		var one struct {
			Enqueued, Expires time.Time
			ExpiresAt         time.Time `json:"expires_at"`
			RetryUntil        time.Time `json:"retry_until"`
			Backoff           []float64 `json:"backoff_seconds"`
			RunAt             time.Time `json:"run_at"`
			Limit             struct {
				Key string
				Max int
			}
		}
		w.decode(&one, "task", "show", fmt.Sprint(tasks[0].ID), "-o", "json")
		if wait, end := one.RunAt.Sub(one.Enqueued), one.ExpiresAt.Sub(one.Enqueued).Round(time.Minute); wait != time.Hour || end != 2*time.Hour || one.Limit.Key != "k" || one.Limit.Max != 2 {
			t.Errorf("it is %+v", one)
		}
		if tries := one.RetryUntil.Sub(one.Enqueued).Round(time.Minute); tries != 3*time.Hour || !slices.Equal(one.Backoff, []float64{1, 60}) {
			t.Errorf("it is tried again for %s, with pauses %v", tries, one.Backoff)
		}
	})
}
