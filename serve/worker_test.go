package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// A command in any language works tasks: what it prints is passed on, 0 is done, 75 is not now, and the end of what a
// failed one printed is kept with its task.
// Holds: promise 19.
func TestAProgramWorksTasksWithACommand(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	c := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer c.Close()
	ids := map[string]task.ID{}
	for _, kind := range []string{"good", "bad", "late"} {
		e, err := c.Enqueue(t.Context(), queue.Spec{Kind: kind, Args: []byte(`{"to":7}`), Options: queue.Options{MaxAttempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		ids[kind] = e.ID
	}
	var out, wrong text
	script := `case $DIBS_KIND in good) cat;; late) exit 75;; *) echo went wrong >&2; exit 3;; esac`
	w, err := serve.NewWorker(t.Context(), serve.Store{Opened: st}, serve.WorkerOptions{Command: []string{"/bin/sh", "-c", script},
		Output: &out, Errors: &wrong, Logger: quiet, Postpone: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	is := func(kind string, state task.State) func() bool {
		return func() bool {
			got, _, _, err := st.Tasks.Task(t.Context(), ids[kind])
			return err == nil && got.State == state
		}
	}
	until(t, "the good one succeeds", is("good", task.Succeeded))
	until(t, "the bad one fails", is("bad", task.Failed))
	until(t, "the late one waits", is("late", task.Retryable))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.Close()
	if out.String() != `{"to":7}` || wrong.String() != "went wrong\n" {
		t.Errorf("printed %q and %q", out.String(), wrong.String())
	}
	var r *serve.Refusal
	if _, err := serve.NewWorker(t.Context(), serve.Store{Opened: st}, serve.WorkerOptions{}); !errors.As(err, &r) || !strings.Contains(err.Error(), "Command") {
		t.Errorf("without a command: %v", err)
	}
}

// A command that ends and leaves processes behind keeps its task running: the log says why, and if the task's time
// ends them, the error says both.
func TestWhatACommandLeavesBehindIsNamed(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	c := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer c.Close()
	e, err := c.Enqueue(t.Context(), queue.Spec{Kind: "k", Options: queue.Options{MaxAttempts: 1, Timeout: 5 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	var log text
	w, err := serve.NewWorker(t.Context(), serve.Store{Opened: st}, serve.WorkerOptions{StopGrace: -1,
		Command: []string{"/bin/sh", "-c", "sleep 3600 >/dev/null 2>&1 </dev/null & exit 3"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	until(t, "the log names what still runs", func() bool {
		return strings.Contains(log.String(), "event=task-leftovers") && strings.Contains(log.String(), "status=3")
	})
	var got driver.Task
	until(t, "the attempt ends", func() bool {
		got, _, _, err = st.Tasks.Task(t.Context(), e.ID)
		return err == nil && got.State == task.Failed
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.Close()
	if h := got.History; len(h) != 1 || !strings.HasPrefix(h[0].Error, "exit status 3; processes that it started went on until the task's time was over") {
		t.Errorf("%+v", h)
	}
}
