package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// ended is what is known when a handler has returned.
type ended struct {
	task           *driver.Fetched
	attempt        int
	handler        Handler
	says           opinion
	pause          time.Duration // of the handler's Backoff, where paused
	paused         bool
	cause          error // why its context ended; nil where it did not
	stop           string
	started, ended time.Time
	took           time.Duration
}

// decide returns what happens to the task; ok is false if nothing may be written any more.
//
// Finished work is a success even if it was asked to stop meanwhile. An attempt counts because its work began; only
// handing back and postponing use none (promises 19 and 20).
func decide(e ended) (c driver.Completion, ok bool) {
	c = driver.Completion{Ref: e.task.Ref, Started: e.started, Ended: e.ended}
	if errors.Is(e.cause, lease.ErrLost) {
		return c, false
	}
	if e.says.err == nil {
		c.Verdict = driver.Success
		return c, true
	}
	c.Error = bounded(e.says.text)
	h := e.says.handled
	switch {
	case errors.Is(e.cause, ErrStopped):
		c.Verdict, c.Outcome, c.Reason = driver.Cancel, "canceled", e.stop
	case h != nil && h.verdict == driver.Drop:
		c.Verdict, c.Outcome, c.Reason = driver.Drop, "discarded", task.ReasonWorker
	case h != nil && h.verdict == driver.Fail:
		c.Verdict, c.Outcome, c.Reason = driver.Fail, "failed", "final"
	case errors.Is(e.cause, ErrShutdown):
		c.Verdict, c.Outcome = driver.Return, "returned"
	case h != nil && h.verdict == driver.Snooze:
		e.postpone(&c, h)
	default:
		e.again(&c, h)
	}
	c.Delay = max(c.Delay, 0) // whatever the caller's code made of it
	return c, true
}

func (e *ended) postpone(c *driver.Completion, h *handled) {
	c.Verdict, c.Outcome, c.Delay = driver.Snooze, "snoozed", h.delay
	did := "postponed"
	if h.notStarted() {
		c.Outcome, did = "returned", "handed back or postponed"
	}
	if e.task.Snoozes >= e.task.SnoozeBudget() {
		c.Verdict, c.Outcome, c.Reason = driver.Fail, "failed", fmt.Sprintf("%s %d times", did, e.task.Snoozes)
	}
}

// again retries a failed attempt while attempts and time are left.
func (e *ended) again(c *driver.Completion, h *handled) {
	c.Outcome = "failed"
	if errors.Is(e.cause, ErrTimedOut) {
		c.Outcome = "timed_out"
	}
	switch {
	case h != nil && h.verdict == driver.Retry:
		c.Delay = h.delay
	case e.task.Backoff != nil:
		c.Delay = e.task.Backoff.After(e.attempt)
	case e.paused:
		c.Delay = e.pause
	default:
		c.Delay = Backoff{}.After(e.attempt)
	}
	c.Verdict = driver.Retry
	switch until := e.task.RetryUntil; {
	case e.attempt >= e.task.AttemptBudget():
		c.Verdict, c.Delay, c.Reason = driver.Fail, 0, fmt.Sprintf("attempt %d of %d", e.attempt, e.task.AttemptBudget())
	case !until.IsZero() && e.ended.Add(c.Delay).After(until):
		c.Verdict, c.Delay, c.Reason = driver.Fail, 0, "no time left: retry_until was "+until.UTC().Format(time.RFC3339)
	}
}

// overdue ends a task whose time for retries ran out while it waited; that is not an attempt. The first attempt is
// always made: a task never fails without having been tried.
func overdue(f *driver.Fetched, now time.Time) (driver.Completion, bool) {
	if f.RetryUntil.IsZero() || f.Attempts == f.Granted || !now.After(f.RetryUntil) {
		return driver.Completion{}, false
	}
	return driver.Completion{Ref: f.Ref, Verdict: driver.Fail,
		Reason: "no time left: retry_until was " + f.RetryUntil.UTC().Format(time.RFC3339)}, true
}

// bounded keeps an error readable, and small enough for any store.
func bounded(s string) string {
	const most = 8 << 10
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "")
}
