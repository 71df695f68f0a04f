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
	// Do does one task. nil is success, any error a failed attempt, unless it is one of Final, RetryAfter,
	// Postpone and GiveUp. When its context ends, it must return: the cause says why
	// (ErrTimedOut, ErrStopped, ErrShutdown, or one that wraps lease.ErrLost, after which
	// somebody else may do the task). A panic is a failed attempt.
	Do func(ctx context.Context, r *Run) error
	// Timeout bounds an attempt of a task that names none: it is the deadline of Do's context. Default none.
	Timeout time.Duration
	// Backoff is the pause after the n-th failed attempt of a task that names none. It is part of the attempt, whose
	// slot and task wait for it: compute it and return. Where it panics, the default stands. Default Backoff{}.After.
	Backoff func(n int, err error) time.Duration
	// Rate bounds how many are fetched, by all workers of the fleet together. The last worker that began says it: one
	// whose handler has none takes it back. Default any number.
	Rate Rate
}

// A Mux says which handler does which kind. Make it complete before a Worker has it.
type Mux struct {
	handlers map[string]Handler
	any      *Handler
}

// Handle makes h do the tasks of kind. It panics where kind has a handler already.
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

// HandleAny makes h do the tasks of every kind that has no handler of its own. It panics where there is such a
// handler already. h has no Rate, which bounds kinds that are named: NewWorker refuses it.
func (m *Mux) HandleAny(h Handler) {
	if h.Do == nil {
		panic("queue: Mux.HandleAny without a function")
	}
	if m.any != nil {
		panic("queue: Mux.HandleAny: there is a handler for any kind already")
	}
	m.any = &h
}

// check refuses rates that would bind nothing.
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

// kinds are those that a worker with m fetches; none: any.
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

// Handles says whether there is a handler for kind.
func (m *Mux) Handles(kind string) bool {
	_, ok := m.handler(kind)
	return ok
}

// rates are those of all kinds that m names. One without a rate takes an earlier one back.
func (m *Mux) rates() map[string]Rate {
	rates := make(map[string]Rate, len(m.handlers))
	for kind, h := range m.handlers {
		rates[kind] = h.Rate
	}
	return rates
}

// A Kind is a kind of task with typed arguments, so that who enqueues and who handles agree.
type Kind[A any] struct{ Name string }

// Define names a kind whose arguments are an A, as JSON.
func Define[A any](name string) Kind[A] { return Kind[A]{Name: name} }

// Spec is a task of the kind; set what else it should say. Arguments that JSON cannot hold are reported when it
// is enqueued.
func (k Kind[A]) Spec(args A) Spec {
	return task.SpecOf(k.Name, args)
}

// Handle makes do the handler of the kind; h says the rest, and its Do is ignored. Arguments that are no A are
// a failed attempt as any: a worker of another version may read them.
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
	// Lease is the worker's, under which all its tasks run: for work that must end with it by
	// other means than its context. Never release it.
	Lease *lease.Lease
	done  bool
	it    *item // nil in a test kit
}

// Complete writes, in a transaction of the caller's, that the task is done: the work and its
// completion commit together or not at all. On ErrStale somebody else has the task by now: roll back. After
// the commit the handler returns nil; nothing more is written. Where it returns nil without a commit, the attempt
// has failed (ErrUncommitted).
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
