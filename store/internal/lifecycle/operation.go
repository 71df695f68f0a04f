package lifecycle

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Refuses says why an operator's act cannot be done to t as it stands; empty: it can.
func (t *Task) Refuses(act *driver.OpRequest) driver.OpAnswer {
	switch {
	case act.From != "" && act.From != t.Queue, len(act.States) > 0 && !slices.Contains(act.States, t.State):
		return driver.Changed
	case !t.fits(act.Operation):
		return driver.Unfit
	}
	return ""
}

func (t *Task) fits(act driver.Operation) bool {
	switch act {
	case driver.OpRetry:
		return t.State.Final() || t.State == task.Retryable
	case driver.OpDelete:
		return t.State.Final() || t.State == task.Damaged
	case driver.OpCancel:
		return t.State.Waiting() || t.State == task.Running
	case driver.OpDiscard, driver.OpPromote, driver.OpMove, driver.OpEdit:
		return t.State.Waiting()
	}
	return false
}

// Operate does to t an operation that Refuses has not refused, except OpDelete, which is the store's. A retry needs
// t's unique key: see Reclaims.
func (t *Task) Operate(act driver.OpRequest, now time.Time) (driver.OpAnswer, Note) {
	switch act.Operation {
	case driver.OpRetry:
		return driver.Done, t.retry(now)
	case driver.OpCancel:
		if t.State == task.Running {
			t.Stop = task.ReasonOperator
			return driver.Asking, Note{}
		}
		return driver.Done, t.cancel(task.ReasonOperator, now)
	case driver.OpDiscard:
		return driver.Done, t.Discard(task.ReasonOperator, now)
	case driver.OpPromote:
		t.Front = true
		if t.RunAt.After(now) {
			t.RunAt = now
		}
	case driver.OpMove:
		t.Queue = act.Queue
	case driver.OpEdit:
		if p := act.Edit.Priority; p != nil {
			t.Priority = *p
		}
		if at := act.Edit.RunAt; at != nil {
			t.RunAt = micro(*at)
		}
	}
	return driver.Done, t.Wait(now)
}

// Reclaims says that a retry of t takes its unique key anew, which nobody else must hold.
func (t *Task) Reclaims() bool { return t.Unique != nil && t.State.Final() }

// retry runs t anew, with one fresh budget (rule Q7).
func (t *Task) retry(now time.Time) Note {
	if t.Reclaims() {
		t.takeKey()
	}
	t.Granted, t.Crashes, t.Snoozes = t.Attempts, 0, 0
	t.Window, t.Ended, t.Reason, t.RunAt, t.Displaced = time.Time{}, time.Time{}, "", now, false
	if !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) {
		t.ExpiresAt = time.Time{} // it has been waited for; somebody wants it nevertheless
	}
	return t.Wait(now)
}

// Matches says whether t is one that f asks for, but for its range of ids.
func (t *Task) Matches(f *driver.Filter) bool {
	return (f.Queue == "" || f.Queue == t.Queue) &&
		(f.Kind == "" || f.Kind == t.Kind) &&
		(len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		(f.Tag == "" || slices.Contains(t.Tags, f.Tag)) &&
		(f.Unique == "" || t.Unique != nil && t.Unique.Key == f.Unique) &&
		(f.Limit == "" || t.Limit != nil && t.Limit.Key == f.Limit) &&
		(f.Since.IsZero() || !t.since().Before(micro(f.Since)))
}

// since returns when t ended, or was enqueued.
func (t *Task) since() time.Time {
	if t.State.Final() {
		return t.Ended
	}
	return t.Enqueued
}
