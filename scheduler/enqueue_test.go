package scheduler_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/enqueue"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/task"
)

// printed is what the runs of a job print.
type printed struct {
	mu sync.Mutex
	strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Builder.Write(b)
}

func (p *printed) Close() error { return nil }

// enqueuing is a job that enqueues, as a host of the world has it, with a client of its own.
func (w *world) enqueuing(h *host, expr string, change func(enqueue.Target) run.Target) (*scheduler.Job, *printed) {
	client := queue.NewClient(queue.ClientOptions{Store: w.b.Store().Queue, Timeout: time.Second})
	w.t.Cleanup(client.Close)
	spec := job.Spec{Task: &job.Task{Kind: "k", Queue: "q"}}
	tg := enqueue.Target{Queue: client, Spec: task.Spec{Kind: "k", Queue: "q"}, Again: 24 * time.Hour, Now: h.backend.Keeper.Now}
	target := run.Target(tg)
	if change != nil {
		target = change(tg)
	}
	j := newJob(w.t, expr, target, func(p *job.Policy) { *p = spec.DefaultPolicy() })
	out := new(printed)
	j.Output = func(run.Record) io.WriteCloser { return out }
	return j, out
}

// tasks are all that there are, by unique key.
func (w *world) tasks() map[string][]driver.Task {
	w.t.Helper()
	all, err := w.b.Store().Tasks.Tasks(w.t.Context(), driver.Filter{Max: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	by := map[string][]driver.Task{}
	for _, t := range all {
		by[t.Unique.Key] = append(by[t.Unique.Key], t)
	}
	return by
}

// worker does all tasks of queue q at once, until stop is called.
func (w *world) worker() (stop func()) {
	st := w.b.Store()
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now()}})
	if err != nil {
		w.t.Fatal(err)
	}
	mux := &queue.Mux{}
	queue.Define[any]("k").Handle(mux, func(context.Context, *queue.Run, any) error { return nil }, queue.Handler{})
	wk, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: k, Mux: mux, Queues: []string{"q"}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- wk.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		k.Close()
	}
}

// Rule Q9: each tick of a fleet enqueues one task, whichever server fires it.
// Holds: Q9.
func TestEachTickEnqueuesOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var hosts []*host
		for i := range uint64(2) {
			h := w.host(i+1, 0)
			j, _ := w.enqueuing(h, "* * * * *", nil)
			h.start(t, j)
			hosts = append(hosts, h)
		}
		time.Sleep(30 * time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		tasks, rows := w.tasks(), w.history()
		if len(rows) < 29 || len(tasks) != len(rows) {
			t.Errorf("%d ticks enqueued tasks of %d keys", len(rows), len(tasks))
		}
		for _, r := range rows {
			if of := tasks["app/j@"+r.At.UTC().Format(time.RFC3339)]; r.Outcome != run.Succeeded || len(of) != 1 {
				t.Errorf("tick %s ended %s and enqueued %d tasks", r.At, r.Outcome, len(of))
			}
		}
	})
}

// Rule Q9: a server that dies between the enqueuing and the report has its tick run again, and there is one
// task: while it waits, and when it was done meanwhile.
// Holds: Q9.
func TestACrashAfterTheEnqueuingEnqueuesNothingTwice(t *testing.T) {
	for _, done := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if done {
				defer w.worker()()
			}
			dying, other := w.host(1, 0), w.host(2, 0)
			dies, _ := w.enqueuing(dying, "*/5 * * * *", func(tg enqueue.Target) run.Target {
				return run.Func(func(ctx context.Context, c run.Call) error {
					if r := tg.Attempt(ctx, c); r.Outcome != run.Succeeded {
						t.Errorf("%+v", r)
					}
					dying.cut(true) // dead, to all others
					<-ctx.Done()
					return context.Cause(ctx)
				})
			})
			dying.start(t, dies)
			now := time.Now()
			time.Sleep(now.Truncate(5 * time.Minute).Add(5*time.Minute + time.Second).Sub(now))
			if len(w.tasks()) != 1 {
				t.Fatalf("the first run enqueued %v", w.tasks())
			}
			j, out := w.enqueuing(other, "*/5 * * * *", nil)
			other.start(t, j)
			time.Sleep(time.Minute)
			rows := w.history()
			if len(rows) != 1 || rows[0].Outcome != run.Succeeded || rows[0].Reruns != 1 {
				t.Fatalf("ticks: %+v", rows)
			}
			state := task.Available
			if done {
				state = task.Succeeded
			}
			of := w.tasks()["app/j@"+rows[0].At.UTC().Format(time.RFC3339)]
			if len(of) != 1 || of[0].State != state || len(w.tasks()) != 1 || !strings.Contains(out.String(), "this run's already: "+string(state)) {
				t.Errorf("tasks %+v, and the run printed %q", w.tasks(), out.String())
			}
			dying.cut(false)
			dying.stop()
			other.stop()
		})
	}
}

// deaf loses the answers of the first calls, which the store has carried out.
type deaf struct {
	enqueue.Queue
	mu   sync.Mutex
	left int
}

func (d *deaf) Enqueue(ctx context.Context, s task.Spec) (task.Enqueued, error) {
	e, err := d.Queue.Enqueue(ctx, s)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left >= 0 {
		return task.Enqueued{}, queue.ErrUnavailable
	}
	return e, err
}

// Rule Q9: an enqueuing that was not answered is tried again by the run, which says so and succeeds, with one task.
// Holds: Q9.
func TestAnUnansweredEnqueuingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		j, out := w.enqueuing(h, "*/5 * * * *", func(tg enqueue.Target) run.Target {
			tg.Queue = &deaf{Queue: tg.Queue, left: 2}
			return tg
		})
		h.start(t, j)
		time.Sleep(6 * time.Minute)
		h.stop()
		rows := w.history()
		if len(rows) < 1 || rows[0].Outcome != run.Succeeded {
			t.Fatalf("ticks: %+v", rows)
		}
		if tasks := w.tasks(); len(tasks["app/j@"+rows[0].At.UTC().Format(time.RFC3339)]) != 1 || len(tasks) != len(rows) {
			t.Errorf("tasks %+v", tasks)
		}
		if !strings.Contains(out.String(), "this run's already: available") {
			t.Errorf("the run printed %q", out.String())
		}
	})
}
