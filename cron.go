package dibs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/enqueue"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A Tick describes the current run to a scheduled function.
type Tick struct {
	// Job is the function's name in the store, "APP/NAME".
	Job string
	// At is the scheduled instant of the run, in UTC. It is not the time at which the run began, which may be later
	// or, after a crash, much later. Zero in a run that Trigger started without an instant.
	At time.Time
	// Attempt counts from 1. RunID is the same for all attempts of this run.
	Attempt int
	RunID   string
	// Token is larger in every run than in all earlier runs of the job. Pass it to the systems that the function
	// writes to, and have them refuse writes with a smaller token than they have seen.
	Token lease.Token
	// IdempotencyKey is the same for every attempt and every rerun of a tick, so that other systems can recognise a
	// repetition.
	IdempotencyKey string
	// PreviousSuccess is At of the latest earlier run that succeeded. It is zero if none of the last 100 did, or if
	// the history did not answer in time; PreviousUnknown is true in the second case.
	PreviousSuccess time.Time
	PreviousUnknown bool
	// Output keeps the last 64 KiB of what the function prints with the run: `dibs history --log RUN` shows it.
	Output io.Writer
}

// A Func is a scheduled function. An error or a panic is a failed attempt and is recorded with the run; the stack of
// a panic goes to the run's output. The context ends when the run must end: it timed out, the process has drained, a
// newer run replaces it, or the lease is lost and another server may soon get it. context.Cause says which: an error
// that wraps lease.ErrLost, run.ErrTimedOut, run.ErrReplaced or run.ErrShutdown. The function must then return.
type Func func(ctx context.Context, t Tick) error

// CronOptions configure when and how a scheduled function runs, beyond its expression. The zero value means: UTC,
// one run at a time, one attempt, missed ticks are skipped. All processes must use the same options: see
// Client.Cron.
type CronOptions struct {
	// Zone is the IANA name of the time zone in which the expression is read, such as "Europe/Berlin". Default
	// "UTC".
	Zone string
	// DST decides what happens to fixed times when that zone's clock changes. Default job.DSTVixie: as cron does.
	DST job.DST
	// Concurrency decides what happens when a tick is due while a run is still going on. Default job.Forbid: the
	// tick is skipped.
	Concurrency job.Concurrency
	// Timeout bounds each attempt; Deadline bounds the run with its retries. Default none.
	Timeout, Deadline time.Duration
	// Attempts is how often a failing function is tried, 1 to 100, with pauses that double from RetryMin to
	// RetryMax. Default 1, 1 s and 1 min.
	Attempts           int
	RetryMin, RetryMax time.Duration
	// CatchUp decides which missed ticks run later, when no process was there for them. Default job.CatchUpSkip:
	// none. OnCrash decides whether a tick runs once more after its process died. Default job.CrashSkip;
	// job.CrashRerun for CronTask. Both look back for CatchUpWindow; default 24 h.
	CatchUp       job.CatchUp
	OnCrash       job.OnCrash
	CatchUpWindow time.Duration
	// StartingDeadline is how late a run may start and still be on time. Default half the schedule's period, at most
	// 5 min.
	StartingDeadline time.Duration
	// Jitter spreads functions that are due at the same time: each starts later than its tick by a fraction of
	// Jitter that is always the same for that function. Default none.
	Jitter time.Duration
}

// Cron runs fn at each tick of a schedule, in one process of the fleet (of the host, if the store reaches only one
// host). The expression has five fields, or six with seconds, or is "@hourly", "@every 10m" and the like; package
// schedule and docs/reference/schedules.md describe it in full. Pass at most one CronOptions.
//
// The error says what is wrong with the name or the schedule, or that the name is already registered. It may be
// ignored: Run returns it as well, and then starts nothing.
//
// The store holds one definition of "APP/NAME": schedule, zone and options. During a rolling deployment the
// definition registered last counts (rule T11); processes with another one log it, and leave the function to those
// that have the new one. If a newer program lacks a function, its Run removes it at the start: the function's ticks
// up to then get their outcome, and there are no more. The code of the function is not part of the definition.
func (c *Client) Cron(name, expr string, fn Func, o ...CronOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec := job.Spec{Function: &job.Function{Name: nameOf(fn)}}
	if fn == nil {
		return c.refuse(fmt.Errorf("dibs: Cron %q: the function is nil", name))
	}
	return c.schedule("Cron", name, expr, spec, o, func(*scheduler.Job) (run.Target, error) { return target(fn), nil })
}

// CronTask enqueues a task at each tick of a schedule, once in the fleet, for any worker of its kind. The tick is
// the task's unique key, so the task's own Unique must not be set. All else is as with Cron.
func (c *Client) CronTask(name, expr string, t queue.Spec, o ...CronOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := fmt.Sprintf("dibs: CronTask %q", name)
	switch {
	case c.store.Queue == nil:
		return c.refuse(fmt.Errorf("%s: store %s has no queues: %w", what, c.store.URL, errors.ErrUnsupported))
	case t.Unique != nil:
		return c.refuse(fmt.Errorf("%s: the task has a unique key: leave Unique nil, the tick is its key", what))
	case !t.ExpiresAt.IsZero() || !t.RetryUntil.IsZero() || !t.RunAt.IsZero():
		return c.refuse(fmt.Errorf("%s: the task has a fixed instant, and there is one task per tick: use Delay, Timeout and MaxAttempts", what))
	}
	described := t.Clone()
	if described.Queue == "" {
		described.Queue = task.DefaultQueue
	}
	spec := job.Spec{Task: &job.Task{Kind: described.Kind, Queue: described.Queue, Args: string(described.Args)}}
	return c.schedule("CronTask", name, expr, spec, o, func(j *scheduler.Job) (run.Target, error) {
		target := enqueue.Target{Queue: lazyQueue{c}, Spec: described, Again: j.Spec.Policy.CatchUpWindow, Now: c.keeper.Now}
		return target, target.Check()
	})
}

// lazyQueue creates the queue's client when the first task is enqueued.
type lazyQueue struct{ c *Client }

func (q lazyQueue) Enqueue(ctx context.Context, s queue.Spec) (queue.Enqueued, error) {
	return q.c.Enqueue(ctx, s)
}

// schedule registers one job; c.mu is held.
func (c *Client) schedule(by, as, expr string, spec job.Spec, o []CronOptions,
	work func(*scheduler.Job) (run.Target, error)) error {
	what := fmt.Sprintf("dibs: %s %q", by, as)
	switch {
	case c.late(what) != nil:
		return c.late(what)
	case !c.store.Ticked():
		return c.refuse(fmt.Errorf("%s: store %s keeps no ticks: %w", what, c.store.URL, errors.ErrUnsupported))
	case c.o.App == "":
		return c.refuse(fmt.Errorf("%s: Options.App is empty: it says whose functions these are, the same in all processes; set it, for instance to the program's name", what))
	case !names().MatchString(as):
		return c.refuse(fmt.Errorf("%s: want a name of %s", what, nameWant))
	case c.crons[as] != nil:
		return c.refuse(fmt.Errorf("%s: there is a schedule of that name already", what))
	case len(o) > 1:
		return c.refuse(fmt.Errorf("%s: there are %d CronOptions; give one at most", what, len(o)))
	}
	spec.App, spec.Name, spec.Schedules = c.o.App, as, []string{expr}
	if err := c.policy(&spec, slices.Concat(o, []CronOptions{{}})[0]); err != nil {
		return c.refuse(fmt.Errorf("%s: %w", what, err))
	}
	j := &scheduler.Job{Spec: spec, Output: c.output}
	err := j.Check()
	if err == nil {
		j.Target, err = work(j)
	}
	if err != nil {
		return c.refuse(fmt.Errorf("%s: %w", what, err))
	}
	c.crons[as] = j
	return nil
}

// policy sets a job's policy from its options and the defaults.
func (c *Client) policy(s *job.Spec, o CronOptions) error {
	p := s.DefaultPolicy()
	p.Scope = job.Global
	if c.store.Properties.Reach != store.Fleet {
		p.Scope = job.Host // which is all there is
	}
	p.StopGrace = stopGrace
	s.Timezone = orElse(o.Zone, "UTC")
	s.DST = o.DST
	p.Concurrency = orElse(o.Concurrency, p.Concurrency)
	p.CatchUp, p.OnCrash = orElse(o.CatchUp, p.CatchUp), orElse(o.OnCrash, p.OnCrash)
	p.CatchUpWindow = orElse(o.CatchUpWindow, p.CatchUpWindow)
	p.Retries = job.Retries{MaxAttempts: orElse(o.Attempts, p.Retries.MaxAttempts), Min: orElse(o.RetryMin, p.Retries.Min), Max: orElse(o.RetryMax, p.Retries.Max)}
	p.Timeout, p.Deadline = orElse(o.Timeout, p.Timeout), orElse(o.Deadline, p.Deadline)
	p.StartingDeadline, p.Jitter = o.StartingDeadline, o.Jitter
	s.Policy = p
	return checkOptions(p, o)
}

func checkOptions(p job.Policy, o CronOptions) error {
	_, wrongWay := job.ParseConcurrency(string(p.Concurrency))
	_, wrongCatchUp := job.ParseCatchUp(string(p.CatchUp))
	_, wrongCrash := job.ParseOnCrash(string(p.OnCrash))
	for field, d := range map[string]time.Duration{"Timeout": o.Timeout, "Deadline": o.Deadline, "RetryMin": o.RetryMin, "RetryMax": o.RetryMax,
		"CatchUpWindow": o.CatchUpWindow, "StartingDeadline": o.StartingDeadline, "Jitter": o.Jitter} {
		if d < 0 {
			return fmt.Errorf("CronOptions.%s is %s: want 0 or more", field, d)
		}
	}
	switch {
	case wrongWay != nil:
		return fmt.Errorf("CronOptions.Concurrency: %w", wrongWay)
	case wrongCatchUp != nil:
		return fmt.Errorf("CronOptions.CatchUp: %w", wrongCatchUp)
	case wrongCrash != nil:
		return fmt.Errorf("CronOptions.OnCrash: %w", wrongCrash)
	case p.Retries.MaxAttempts < 1 || p.Retries.MaxAttempts > 100:
		return fmt.Errorf("CronOptions.Attempts is %d: want 1 to 100", o.Attempts)
	case p.Retries.Max < p.Retries.Min:
		return fmt.Errorf("CronOptions.RetryMax is %s, less than RetryMin, %s", p.Retries.Max, p.Retries.Min)
	}
	if o.DST != "" {
		if _, err := job.ParseDST(string(o.DST)); err != nil {
			return fmt.Errorf("CronOptions.DST: %w", err)
		}
	}
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// target returns the run.Target that calls the function.
func target(fn Func) run.Target {
	return run.Func(func(ctx context.Context, call run.Call) error {
		return fn(ctx, Tick{Job: call.Run.Job, At: call.Run.Scheduled(), Attempt: call.Attempt, RunID: call.Run.ID, Token: call.Run.Token,
			IdempotencyKey: call.IdempotencyKey, PreviousSuccess: call.PreviousSuccess, PreviousUnknown: call.PreviousUnknown,
			Output: call.Output})
	})
}

// Trigger runs a function (or enqueues a task) of this Client now, under its lease and its policy. It uses up no
// tick, and the run is recorded as started by hand. at is the instant that the function gets, for example for the
// report of an earlier day; zero: none. Trigger returns once the run has ended: nil if it succeeded; an error that
// wraps lease.ErrHeld if another run is going on, or lease.ErrUnavailable if the store does not answer.
//
// When ctx ends, the run ends too.
func (c *Client) Trigger(ctx context.Context, name string, at time.Time) error {
	c.mu.Lock()
	j, closed := c.crons[name], c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("dibs: Trigger %q: %w", name, ErrClosed)
	case j == nil:
		return fmt.Errorf("dibs: Trigger %q: no schedule of that name was registered with Cron or CronTask", name)
	}
	key := ""
	if !at.IsZero() {
		at = at.UTC().Truncate(time.Microsecond)
		key = j.Spec.Key() + "@" + at.Format(time.RFC3339Nano)
	}
	res := c.backend.TriggerNow(ctx, ctx, j, key, &run.Cause{By: "program " + c.o.App, Again: at})
	what := fmt.Sprintf("dibs: Trigger %q", name)
	switch {
	case res.Outcome == run.Succeeded:
		return nil
	case res.Held != nil:
		return fmt.Errorf("%s: %w", what, res.Held)
	case res.Err != nil:
		return fmt.Errorf("%s: %w", what, res.Err)
	}
	return fmt.Errorf("%s: %s: %s", what, res.Outcome, res.Reason)
}

// nameOf returns the name of a function in its program, for people to read.
func nameOf(fn Func) string {
	if f := runtime.FuncForPC(reflect.ValueOf(fn).Pointer()); fn != nil && f != nil {
		return f.Name()
	}
	return ""
}

// output keeps the end of what a run prints.
func (c *Client) output(r run.Record) io.WriteCloser {
	return &output.Captured{Keep: func(tail []byte) {
		if err := c.backend.Keep(r, tail); err != nil {
			c.log.Warn("the run's output could not be kept", "event", "output-lost", "job", r.Job, "run_id", r.ID, "error", err)
		}
	}}
}
