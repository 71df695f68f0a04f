// Package queuetest lets a program's tests enqueue and work tasks in memory, with the real Client and Worker.
//
// In a testing/synctest bubble, time is the bubble's: delays, back-offs and windows pass as fast as the test sleeps.
package queuetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// A Kit is a store in memory with a client. Its methods fail the test on an error.
type Kit struct {
	// Client is for the code under test to enqueue with; Store is for a Worker of the test's own.
	Client *queue.Client
	Store  *store.Store

	t testing.TB
}

// New creates a Kit, which ends with the test.
func New(t testing.TB) *Kit {
	t.Helper()
	s := memory.New(memory.Options{}).Store()
	k := &Kit{Store: s, Client: queue.NewClient(queue.ClientOptions{Store: s.Queue}), t: t}
	t.Cleanup(k.Client.Close)
	return k
}

// Work has the handlers of m do all due tasks in the queues (default: "default") until no task that they handle is
// available or running. Tasks for later stay. Tasks that a handler enqueues meanwhile are done as well. If a handler
// ended the test (FailNow, SkipNow), Work ends it, once the attempt has ended as failed.
func (k *Kit) Work(m *queue.Mux, queues ...string) {
	k.t.Helper()
	if len(queues) == 0 {
		queues = []string{task.DefaultQueue}
	}
	keeper, err := lease.NewKeeper(lease.Options{Store: k.Store.Leases, Clock: clock.Virtual{Start: time.Now()}})
	if err != nil {
		k.t.Fatal(err)
	}
	defer keeper.Close()
	var exited atomic.Bool
	w, err := queue.NewWorker(queue.WorkerOptions{Store: k.Store.Queue, Keeper: keeper, Mux: m, Queues: queues, Grace: time.Hour,
		Listen: func(h queue.Happening) {
			if h.Err == queue.ErrExited {
				exited.Store(true)
			}
		}})
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(k.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for !k.idle(m, queues) {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		k.t.Fatal(err)
	}
	switch {
	case exited.Load() && k.t.Skipped():
		k.t.SkipNow()
	case exited.Load() && k.t.Failed():
		k.t.FailNow()
	}
}

// idle reports whether nothing is left that m would do now.
func (k *Kit) idle(m *queue.Mux, queues []string) bool {
	k.t.Helper()
	for _, q := range queues {
		tasks, err := k.Store.Tasks.Tasks(k.t.Context(), driver.Filter{Queue: q, Max: 1000,
			States: append(task.Waits(true), task.Running)})
		if err != nil {
			k.t.Fatal(err)
		}
		for _, t := range tasks {
			later := (t.State == task.Scheduled || t.State == task.Retryable) && t.RunAt.After(time.Now())
			if m.Handles(t.Kind) && !later {
				return false
			}
		}
	}
	return true
}

// Tasks returns the tasks of a kind, by id, in any state; "" is any kind.
func (k *Kit) Tasks(kind string) []driver.Task {
	k.t.Helper()
	var all []driver.Task
	for f := (driver.Filter{Kind: kind, Max: 1000}); ; f.After = all[len(all)-1].ID {
		tasks, err := k.Store.Tasks.Tasks(k.t.Context(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		all = append(all, tasks...)
		if len(tasks) < 1000 {
			return all
		}
	}
}
