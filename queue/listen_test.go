package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

// A worker's listener hears what happens to tasks, in order, once each, and failures are logged at WARN.
// Holds: promise 24.
func TestWhatHappensToTasksIsToldAndLogged(t *testing.T) {
	virtual(t, func(w *world) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		boom := errors.New("boom")
		var mu sync.Mutex
		heard := map[task.ID][]string{}
		m := &queue.Mux{}
		m.Handle("k", queue.Handler{Timeout: time.Minute, Backoff: func(int, error) time.Duration { return time.Second },
			Do: func(ctx context.Context, r *queue.Run) error {
				switch what := string(r.Args); {
				case what == `"fails"`:
					return boom
				case what == `"final"`:
					return queue.Final(boom)
				case what == `"panics"`:
					panic("oh")
				case what == `"late"`:
					<-ctx.Done()
					return ctx.Err()
				case what == `"gives up"`:
					return queue.GiveUp("no use")
				case what == `"later"` && r.Snoozes == 0:
					return queue.Postpone(time.Second)
				}
				return nil
			}})
		wk := w.work(queue.WorkerOptions{Mux: m, Listen: func(h queue.Happening) {
			mu.Lock()
			defer mu.Unlock()
			if h.On == queue.TaskRetried && (h.Again != time.Second || h.Err == nil || h.Started.IsZero() || h.Ended.IsZero()) || h.Kind != "k" || h.Queue != "default" || h.Task.Token == 0 {
				t.Errorf("%+v", h)
			}
			heard[h.Task.ID] = append(heard[h.Task.ID], fmt.Sprint(h.On, " ", h.Attempt, " ", h.Outcome))
		}})
		for what, want := range map[string]struct {
			state task.State
			told  string
		}{
			"goes well": {task.Succeeded, "start 1 , success 1 succeeded"},
			"fails":     {task.Failed, "start 1 , retry 1 failed, start 2 , failure 2 failed"},
			"final":     {task.Failed, "start 1 , failure 1 failed"},
			"panics":    {task.Failed, "start 1 , retry 1 failed, start 2 , failure 2 failed"},
			"late":      {task.Failed, "start 1 , retry 1 timed_out, start 2 , failure 2 timed_out"},
			"gives up":  {task.Discarded, "start 1 , discard 1 discarded"},
			"later":     {task.Succeeded, "start 1 , start 1 , success 1 succeeded"},
		} {
			log.Reset()
			id := w.enqueue(task.Spec{Kind: "k", Args: []byte(`"` + what + `"`), Options: task.Options{MaxAttempts: 2}}).ID
			w.expect(id, want.state, 5*time.Minute)
			synctest.Wait()
			mu.Lock()
			if got := strings.Join(heard[id], ", "); got != want.told {
				t.Errorf("%s: heard %q, want %q", what, got, want.told)
			}
			mu.Unlock()
			lines := strings.Count(log.String(), "level=WARN msg=\"a task")
			if failed := strings.Count(want.told, "retry") + strings.Count(want.told, "failure"); lines != failed || strings.Count(log.String(), fmt.Sprint("task=", id)) != failed {
				t.Errorf("%s: %d lines, want %d:\n%s", what, lines, failed, log.String())
			}
		}
		w.end(wk)
	})
}

// A handler that goes on long after its time is said to.
// Holds: promise 24.
func TestAHandlerThatIgnoresItsTimeoutIsLogged(t *testing.T) {
	virtual(t, func(w *world) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { time.Sleep(time.Minute); return nil })})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{Timeout: time.Second}}).ID
		time.Sleep(30 * time.Second)
		synctest.Wait() // the log is written aside
		if !strings.Contains(log.String(), "level=WARN msg=\"a task's handler has not returned although its time is over\"") {
			t.Errorf("the log says\n%s", log.String())
		}
		w.expect(id, task.Succeeded, time.Hour)
		w.end(wk)
	})
}

// A listener that never returns holds up nothing.
// Holds: promise 24.
func TestAListenerThatHangsHoldsUpNothing(t *testing.T) {
	virtual(t, func(w *world) {
		hang := make(chan struct{})
		defer close(hang)
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { return nil }), Listen: func(queue.Happening) { <-hang }})
		var last task.ID
		for range 5000 { // more than may wait
			last = w.enqueue(task.Spec{Kind: "k"}).ID
		}
		w.expect(last, task.Succeeded, time.Minute)
		begun := time.Now()
		w.end(wk)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

// A task that has used up its crashes is reported and logged by the worker that finds it.
// Holds: promise 24.
func TestACrashIsTold(t *testing.T) {
	virtual(t, func(w *world) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxCrashes: 1}}).ID
		for range 2 {
			w.dies(id)
		}
		told := make(chan queue.Happening, 10)
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { return nil }), Listen: func(h queue.Happening) { told <- h }})
		w.expect(id, task.Crashed, time.Minute)
		w.end(wk)
		if h := <-told; h.On != queue.TaskCrashed || h.Count != 1 {
			t.Errorf("%+v", h)
		}
		if !strings.Contains(log.String(), "event=task-crashed") {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}
