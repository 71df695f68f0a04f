package dibs

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
)

// A Kind is a kind of task whose arguments are an A, as JSON, so that who enqueues and who handles agree.
type Kind[A any] = queue.Kind[A]

// A Task is one attempt at a task, as its handler sees it: its id, attempt, token and queue. Its Complete reports the
// end in a transaction of the handler's own.
type Task = queue.Run

// Define names a kind of task. kind.Spec(args) is one task of it, to be enqueued.
func Define[A any](name string) Kind[A] { return queue.Define[A](name) }

// Handle has do work the tasks of a kind in this process, once Run is called. An error or a panic is a failed
// attempt, which is tried again after a pause that grows, 25 times where the task says nothing; queue.Final,
// queue.RetryAfter, queue.Postpone and queue.GiveUp say otherwise. There may be one queue.Handler at most: its
// Timeout, Backoff and Rate count.
//
// The error says that the kind was given before. It may be ignored: Run returns it as well, and then starts nothing.
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

// Enqueue takes a task in and answers truthfully whether it is new, or a duplicate of which task, in which
// state. On an error that wraps lease.ErrUnavailable nobody knows; a task with a unique key may simply be
// enqueued again. It needs no Run: the workers may be other processes. Calls that come at the same time travel
// together.
func (c *Client) Enqueue(ctx context.Context, task queue.Spec) (queue.Enqueued, error) {
	q, err := c.queues()
	if err != nil {
		return queue.Enqueued{}, err
	}
	return q.Enqueue(ctx, task)
}

// EnqueueMany takes many tasks in, each with its own answer: 1,000 of them in one step.
func (c *Client) EnqueueMany(ctx context.Context, tasks []queue.Spec) ([]queue.Enqueued, error) {
	q, err := c.queues()
	if err != nil {
		return nil, err
	}
	return q.EnqueueMany(ctx, tasks)
}

// EnqueueIn takes tasks in as part of a transaction of the caller's, made with postgres.QueueTx, mysql.QueueTx or
// file.QueueTx: nothing of it exists before the commit, or after a rollback.
func EnqueueIn(ctx context.Context, tx driver.Inserter, tasks ...queue.Spec) ([]queue.Enqueued, error) {
	return queue.EnqueueIn(ctx, tx, tasks...)
}

// queues is the queue's client.
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

// Mux are the handlers that were given to Handle, for a test kit, or a queue.Worker with options of its own.
func (c *Client) Mux() *queue.Mux { return &c.mux }
