package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
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
