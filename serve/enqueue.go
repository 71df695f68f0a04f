package serve

import (
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/enqueue"
	"github.com/dibs-run/dibs/task"
)

// enqueuing returns the target of a job that enqueues a task, into the store where the job itself lives.
func (s *service) enqueuing(spec *job.Spec) (run.Target, error) {
	h := s.homes[spec.Policy.Scope]
	if h.Store.Queue == nil {
		return nil, fmt.Errorf("it enqueues a task, and store %s has no queues: name one that has (docs/reference/stores.md), or make the job scope host, which enqueues into each host's own directory: %w",
			h.at, errors.ErrUnsupported)
	}
	if h.queue == nil {
		h.queue = queue.NewClient(queue.ClientOptions{Store: h.Store.Queue, Timeout: h.Keeper.Margin().RPCTimeout})
	}
	t := enqueue.Target{Queue: h.queue, Spec: taskOf(spec.Task), Expires: spec.Task.Expires, Retry: spec.Task.Retry,
		Again: spec.Policy.CatchUpWindow, Now: h.Keeper.Now}
	return t, t.Check()
}

// taskOf returns what a job enqueues, without its unique key.
func taskOf(t *job.Task) task.Spec {
	s := task.Spec{Queue: t.Queue, Kind: t.Kind, Args: []byte(t.Args), Priority: t.Priority, Delay: t.Delay,
		Options: task.Options{Timeout: t.Timeout, Tags: t.Tags}}
	if t.MaxAttempts != task.DefaultMaxAttempts {
		s.MaxAttempts = t.MaxAttempts
	}
	if len(t.Backoff) > 0 {
		s.Backoff = &task.Backoff{List: t.Backoff}
	}
	if l := t.Limit; l != nil {
		s.Limit = &task.Limit{Key: l.Key, Shared: l.Shared, Max: l.Max, OnContention: task.Contention(l.OnContention)}
	}
	return s
}
