package life

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Refuses says why an operator's act cannot be done to t as it stands; empty: it can.
func (t *Task) Refuses(act *driver.Action) driver.ActAnswer {
	switch {
	case act.From != "" && act.From != t.Queue, len(act.States) > 0 && !slices.Contains(act.States, t.State):
		return driver.Changed
	case !t.fits(act.Act):
		return driver.Unfit
	}
	return ""
}

func (t *Task) fits(act driver.Act) bool {
	switch act {
	case driver.ActRetry:
		return t.State.Final() || t.State == task.Retryable
	case driver.ActDelete:
		return t.State.Final()
	case driver.ActCancel:
		return t.State.Waiting() || t.State == task.Running
	case driver.ActDiscard, driver.ActPromote, driver.ActMove, driver.ActEdit:
		return t.State.Waiting()
	}
	return false
}

// Act does to t an act that Refuses has not refused, except ActDelete, which is the store's. A retry needs t's unique
// key: see Reclaims.
func (t *Task) Act(act driver.Action, now time.Time) (driver.ActAnswer, Note) {
	switch act.Act {
	case driver.ActRetry:
		return driver.Done, t.retry(now)
	case driver.ActCancel:
		if t.State == task.Running {
			t.Stop = task.ReasonOperator
			return driver.Asking, Note{}
		}
		return driver.Done, t.cancel(task.ReasonOperator, now)
	case driver.ActDiscard:
		return driver.Done, t.Discard(task.ReasonOperator, now)
	case driver.ActPromote:
		t.Front = true
		if t.RunAt.After(now) {
			t.RunAt = now
		}
	case driver.ActMove:
		t.Queue = act.Queue
	case driver.ActEdit:
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
		(f.Limit == "" || t.Limit != nil && t.Limit.Key == f.Limit)
}
