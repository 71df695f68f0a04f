package cli

import (
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/enqueue"
)

// enqueuing is the target of a job that enqueues a task, into the place where the job itself lives.
func (s *service) enqueuing(spec *job.Spec) (run.Target, error) {
	scope := spec.Policy.Scope
	place := s.places[scope]
	if place.store.Queue == nil {
		return nil, fmt.Errorf("it enqueues a task, and store %s has no queues: name one that has (docs/reference/stores.md), or make the job scope host, which enqueues into each host's own directory: %w",
			place.config, errors.ErrUnsupported)
	}
	if s.queues == nil {
		s.queues = map[job.Scope]*queue.Client{}
	}
	if s.queues[scope] == nil {
		s.queues[scope] = queue.NewClient(queue.ClientOptions{Store: place.store.Queue, Timeout: place.Keeper.Margin().RPCTimeout})
	}
	t := enqueue.Target{Queue: s.queues[scope], Spec: taskOf(spec.Task), Expires: spec.Task.Expires, Retry: spec.Task.Retry,
		Again: spec.Policy.CatchUpWindow, Now: place.Keeper.Now}
	return t, t.Check()
}

// enqueuedBy is the id of the task that the attempts of a run enqueued; 0 for none.
func enqueuedBy(attempts []run.Attempt) (id int64) {
	for _, a := range attempts {
		if a.Task != 0 {
			id = a.Task
		}
	}
	return id
}

// taskOf is what a job enqueues, but for its unique key.
func taskOf(t *job.Task) queue.Spec {
	s := queue.Spec{Queue: t.Queue, Kind: t.Kind, Args: []byte(t.Args), Priority: t.Priority, Delay: t.Delay,
		Options: queue.Options{Timeout: t.Timeout, Tags: t.Tags}}
	if t.MaxAttempts != queue.DefaultMaxAttempts {
		s.MaxAttempts = t.MaxAttempts
	}
	if len(t.Backoff) > 0 {
		s.Backoff = &queue.Backoff{List: t.Backoff}
	}
	if l := t.Limit; l != nil {
		s.Limit = &queue.Limit{Key: l.Key, Shared: l.Shared, Max: l.Max, OnContention: queue.Contention(l.OnContention)}
	}
	return s
}
