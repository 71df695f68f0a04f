package dibs

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
)

// A Kind is a kind of task whose arguments are an A, encoded as JSON, so that the code that enqueues and the code
// that handles use the same type.
type Kind[A any] = queue.Kind[A]

// A Task is one attempt at a task, as its handler sees it: its id, attempt, token and queue. Complete marks the task
// as done within the handler's own transaction.
type Task = queue.Run

// Define names a kind of task. kind.Spec(args) returns one task of it, ready to be enqueued.
func Define[A any](name string) Kind[A] { return queue.Define[A](name) }

// Handle registers do as the handler for tasks of a kind in this process, once Run is called. An error or a panic is
// a failed attempt. It is tried again after a growing pause, 25 times unless the task says otherwise; queue.Final,
// queue.RetryAfter, queue.Postpone and queue.GiveUp change that. Pass at most one queue.Handler: only its Timeout,
// Backoff and Rate count.
//
// The error says that the kind is already registered. It may be ignored: Run returns it as well, and then starts
// nothing.
func Handle[A any](c *Client, kind Kind[A], do func(ctx context.Context, t *Task, args A) error, o ...queue.Handler) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := fmt.Sprintf("dibs: Handle %q", kind.Name)
	switch {
	case c.late(what) != nil:
		return c.late(what)
	case c.store.Queue == nil:
		return c.refuse(fmt.Errorf("%s: store %s has no queues: %w", what, c.store.URL, errors.ErrUnsupported))
	case do == nil:
		return c.refuse(fmt.Errorf("%s: the function is nil", what))
	case kind.Name == "":
		return c.refuse(fmt.Errorf("%s: the kind has no name: make it with dibs.Define", what))
	case c.mux.Handles(kind.Name):
		return c.refuse(fmt.Errorf("%s: there is a handler of that kind already", what))
	case len(o) > 1:
		return c.refuse(fmt.Errorf("%s: there are %d queue.Handlers; give one at most", what, len(o)))
	}
	h := queue.Handler{}
	if len(o) == 1 {
		h = o[0]
	}
	kind.Handle(&c.mux, do, h)
	c.handles++
	return nil
}

// Enqueue adds a task and reports whether it is new or a duplicate, of which task, and in which state that one is.
// If the error wraps lease.ErrUnavailable, the result is unknown; a task with a unique key can simply be enqueued
// again. Enqueue works without Run: the workers may be other processes. Concurrent calls are sent together.
func (c *Client) Enqueue(ctx context.Context, task queue.Spec) (queue.Enqueued, error) {
	q, err := c.queues()
	if err != nil {
		return queue.Enqueued{}, err
	}
	return q.Enqueue(ctx, task)
}

// EnqueueMany adds many tasks, each with its own answer, up to 1,000 of them in one step.
func (c *Client) EnqueueMany(ctx context.Context, tasks []queue.Spec) ([]queue.Enqueued, error) {
	q, err := c.queues()
	if err != nil {
		return nil, err
	}
	return q.EnqueueMany(ctx, tasks)
}

// EnqueueIn adds tasks as part of the caller's transaction, made with postgres.QueueTx, mysql.QueueTx or
// file.QueueTx: the tasks do not exist before the commit, or after a rollback.
func EnqueueIn(ctx context.Context, tx driver.Inserter, tasks ...queue.Spec) ([]queue.Enqueued, error) {
	return queue.EnqueueIn(ctx, tx, tasks...)
}

// queues returns the queue's client.
func (c *Client) queues() (*queue.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.store.Queue == nil:
		return nil, fmt.Errorf("dibs: store %s has no queues: %w", c.store.URL, errors.ErrUnsupported)
	case c.queue == nil:
		c.queue = queue.NewClient(queue.ClientOptions{Store: c.store.Queue})
	}
	return c.queue, nil
}

// Mux returns the handlers that were registered with Handle, for a test kit, or for a queue.Worker with its own
// options.
func (c *Client) Mux() *queue.Mux { return &c.mux }
