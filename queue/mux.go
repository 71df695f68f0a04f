package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A Handler does the tasks of a kind.
type Handler struct {
	// Do does one task. nil is success, any error a failed attempt, unless it is one of Final, RetryAfter, Postpone
	// and GiveUp. When its context ends, Do must return; context.Cause says why: ErrTimedOut, ErrStopped,
	// ErrShutdown, or an error that wraps lease.ErrLost, after which another worker may do the task. A panic is a
	// failed attempt.
	Do func(ctx context.Context, r *Run) error
	// Timeout bounds an attempt, if the task sets no timeout: it is the deadline of Do's context. Default none.
	Timeout time.Duration
	// Backoff returns the pause after the n-th failed attempt, if the task sets none. It is part of the attempt, and
	// the slot and the task wait for it: compute the pause and return. If it panics, the default applies. Default
	// Backoff{}.After.
	Backoff func(n int, err error) time.Duration
	// Rate bounds how many tasks all workers of the fleet together fetch. The worker that began last decides: if its
	// handler has no rate, it removes the rate. Default no bound.
	Rate Rate
}

// A Mux maps kinds of tasks to handlers. Register all of them before you pass it to a Worker.
type Mux struct {
	handlers map[string]Handler
	any      *Handler
}

// Handle registers h for tasks of kind. It panics if kind already has a handler.
func (m *Mux) Handle(kind string, h Handler) {
	if kind == "" || h.Do == nil {
		panic("queue: Mux.Handle without a kind or a function")
	}
	if _, there := m.handlers[kind]; there {
		panic(fmt.Sprintf("queue: Mux.Handle: kind %q has a handler already", kind))
	}
	if m.handlers == nil {
		m.handlers = map[string]Handler{}
	}
	m.handlers[kind] = h
}

// HandleAny registers h for tasks of every kind that has no handler of its own. It panics if there already is such a
// handler. h must have no Rate, since rates apply to named kinds: NewWorker refuses it.
func (m *Mux) HandleAny(h Handler) {
	if h.Do == nil {
		panic("queue: Mux.HandleAny without a function")
	}
	if m.any != nil {
		panic("queue: Mux.HandleAny: there is a handler for any kind already")
	}
	m.any = &h
}

// check refuses rates that would have no effect.
func (m *Mux) check() error {
	if m.any != nil && m.any.Rate != (Rate{}) {
		return errors.New("queue: the handler of HandleAny has a Rate, which applies to named kinds only: pass it to Handle")
	}
	for _, kind := range slices.Sorted(maps.Keys(m.handlers)) {
		if err := m.handlers[kind].Rate.Check(); err != nil {
			return fmt.Errorf("queue: the handler of kind %s: %w", kind, err)
		}
	}
	return nil
}

// kinds returns the kinds that a worker with m fetches; none: any.
func (m *Mux) kinds() []string {
	if m.any != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(m.handlers))
}

func (m *Mux) handler(kind string) (Handler, bool) {
	if h, ok := m.handlers[kind]; ok {
		return h, true
	}
	if m.any != nil {
		return *m.any, true
	}
	return Handler{}, false
}

// Handles reports whether there is a handler for kind.
func (m *Mux) Handles(kind string) bool {
	_, ok := m.handler(kind)
	return ok
}

// rates returns the rates of all kinds that m names. A kind without a rate removes an earlier one.
func (m *Mux) rates() map[string]Rate {
	rates := make(map[string]Rate, len(m.handlers))
	for kind, h := range m.handlers {
		rates[kind] = h.Rate
	}
	return rates
}

// A Kind is a kind of task with typed arguments, so that the code that enqueues and the code that handles use the
// same type.
type Kind[A any] struct{ Name string }

// Define names a kind whose arguments are an A, as JSON.
func Define[A any](name string) Kind[A] { return Kind[A]{Name: name} }

// Spec returns a task of the kind; set its other fields as needed. Arguments that JSON cannot encode are reported
// when the task is enqueued.
func (k Kind[A]) Spec(args A) Spec {
	return task.SpecOf(k.Name, args)
}

// Handle registers do as the handler of the kind; h has the other settings, and its Do is ignored. Arguments that
// are not an A are an ordinary failed attempt: a worker of another version may be able to read them.
func (k Kind[A]) Handle(m *Mux, do func(ctx context.Context, r *Run, args A) error, h Handler) {
	h.Do = func(ctx context.Context, r *Run) error {
		var args A
		if err := json.Unmarshal(r.Args, &args); err != nil {
			return fmt.Errorf("arguments of kind %s: %w", k.Name, err)
		}
		return do(ctx, r, args)
	}
	m.Handle(k.Name, h)
}

// A Run is one attempt at a task, as its handler sees it.
type Run struct {
	driver.Fetched
	// Attempt counts from 1, since the last manual retry.
	Attempt int
	// Lease is the worker's lease, under which all its tasks run. It is for work that must end with the lease by
	// means other than its context. Never release it.
	Lease *lease.Lease
	done  bool
	it    *item // nil in a test kit
}

// Complete records in the caller's transaction that the task is done: the work and its completion commit together or
// not at all. On ErrStale another worker has the task: roll back. After the commit the handler returns nil; nothing
// more is written. If the handler returns nil without a commit, the attempt has failed (ErrUncommitted).
func (r *Run) Complete(ctx context.Context, tx driver.Finisher) error {
	if r.it != nil {
		r.it.completed.Store(true) // before the commit, after which the store knows no more of it
	}
	s, err := tx.Finish(ctx, r.Lease.Ref(), []driver.Completion{{Ref: r.Ref, Verdict: driver.Success}})
	if err == nil && s[0] != driver.OK {
		err = fmt.Errorf("task %d: %w", r.ID, ErrStale)
	}
	if r.done = err == nil; !r.done && r.it != nil {
		r.it.completed.Store(false)
	}
	return err
}
