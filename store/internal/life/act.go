package life

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// Refuses says why an operator's act cannot be done to t as it stands; empty: it can.
func (t *Task) Refuses(act *queue.Action) queue.ActAnswer {
	switch {
	case act.From != "" && act.From != t.Queue, len(act.States) > 0 && !slices.Contains(act.States, t.State):
		return queue.Changed
	case !t.fits(act.Act):
		return queue.Unfit
	}
	return ""
}

func (t *Task) fits(act queue.Act) bool {
	switch act {
	case queue.ActRetry:
		return t.State.Final() || t.State == queue.Retryable
	case queue.ActDelete:
		return t.State.Final()
	case queue.ActCancel:
		return t.State.Waiting() || t.State == queue.Running
	case queue.ActDiscard, queue.ActPromote, queue.ActMove, queue.ActEdit:
		return t.State.Waiting()
	}
	return false
}

// Act does to t an act that Refuses has not refused, except ActDelete, which is the store's. A retry needs t's unique
// key: see Reclaims.
func (t *Task) Act(act queue.Action, now time.Time) (queue.ActAnswer, Note) {
	switch act.Act {
	case queue.ActRetry:
		return queue.Done, t.retry(now)
	case queue.ActCancel:
		if t.State == queue.Running {
			t.Stop = queue.ReasonOperator
			return queue.Asking, Note{}
		}
		return queue.Done, t.cancel(queue.ReasonOperator, now)
	case queue.ActDiscard:
		return queue.Done, t.Discard(queue.ReasonOperator, now)
	case queue.ActPromote:
		t.Front = true
		if t.RunAt.After(now) {
			t.RunAt = now
		}
	case queue.ActMove:
		t.Queue = act.Queue
	case queue.ActEdit:
		if p := act.Edit.Priority; p != nil {
			t.Priority = *p
		}
		if at := act.Edit.RunAt; at != nil {
			t.RunAt = micro(*at)
		}
	}
	return queue.Done, t.Wait(now)
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
func (t *Task) Matches(f *queue.Filter) bool {
	return (f.Queue == "" || f.Queue == t.Queue) &&
		(f.Kind == "" || f.Kind == t.Kind) &&
		(len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		(f.Tag == "" || slices.Contains(t.Tags, f.Tag)) &&
		(f.Unique == "" || t.Unique != nil && t.Unique.Key == f.Unique) &&
		(f.Limit == "" || t.Limit != nil && t.Limit.Key == f.Limit)
}
