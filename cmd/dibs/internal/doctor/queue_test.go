package doctor_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// Each check of a queue with its trigger; all others must then be silent.
// Holds: promise 25.
func TestQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		ctx := context.Background()
		says := func(when string, want ...string) {
			t.Helper()
			now, err := st.Now(ctx)
			if err != nil {
				t.Fatal(err)
			}
			all, err := doctor.Queues(ctx, "memory", st.Tasks, now)
			if err != nil || len(all) != len(want) {
				t.Fatalf("%s: %v, %+v", when, err, all)
			}
			for i, w := range want {
				if !strings.Contains(all[i].Check+": "+all[i].What, w) || all[i].Severity == doctor.Error {
					t.Errorf("%s: %+v, want %s", when, all[i], w)
				}
			}
		}
		enqueue := func(s task.Spec) {
			t.Helper()
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Queue.Enqueue(ctx, []task.Spec{s}); err != nil {
				t.Fatal(err)
			}
		}
		says("nothing there")
		if err := st.Tasks.Pause(ctx, driver.Pause{By: "ops", Why: "a move"}); err != nil {
			t.Fatal(err)
		}
		says("everything paused, for a while")
		time.Sleep(25 * time.Hour)
		says("everything paused for a day, before the first task", "queue-paused: Everything has been paused for 25h0m0s, by ops: a move.")
		if _, err := st.Tasks.Resume(ctx, "", "", "ops"); err != nil {
			t.Fatal(err)
		}

		enqueue(task.Spec{Kind: "a", Limit: &task.Limit{Key: "shop"}})
		enqueue(task.Spec{Kind: "a", Limit: &task.Limit{Key: "shop"}})
		says("nobody works", "queue-unworked: Tasks of kind a wait in queue default (2 of them), and no live worker")

		if err := st.Tasks.Pause(ctx, driver.Pause{Queue: "default", By: "ops", Why: "a fire"}); err != nil {
			t.Fatal(err)
		}
		says("paused, for a while")
		time.Sleep(25 * time.Hour)
		says("paused for a day", "queue-paused: Queue default has been paused for 25h0m0s, by ops: a fire.")
		if _, err := st.Tasks.Resume(ctx, "default", "", "ops"); err != nil {
			t.Fatal(err)
		}

		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		release := make(chan struct{})
		mux := &queue.Mux{}
		queue.Define[any]("a").Handle(mux, func(context.Context, *queue.Run, any) error { <-release; return nil }, queue.Handler{})
		w, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: k, Mux: mux, Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(running) }()
		time.Sleep(time.Minute)
		says("one runs and the other has waited for a day", "queue-waiting: The oldest task of kind a in queue default has waited for 25h1m0s",
			"queue-blocked: Task 2 has waited for 25h1m0s for a slot of its limit \"shop\": 1 of 1 run, 1 wait.")
		close(release)
		time.Sleep(time.Minute)
		says("all done")
		enqueue(task.Spec{Kind: "b"})
		says("a kind that the worker does not know", "queue-unworked: Tasks of kind b")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
