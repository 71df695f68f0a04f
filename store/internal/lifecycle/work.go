package lifecycle

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Give gives t to a worker, under a token that is larger than every earlier one of t and than above, the last one of
// its limit (rule L10).
func (t *Task) Give(above lease.Token, now time.Time) Note {
	t.Token = max(t.Token+1, above+1, lease.Token(now.UnixMicro()))
	t.State, t.Started, t.Begun, t.Stop = task.Running, now, false, ""
	return Note{}
}

// Given is what the worker gets. It shares t's Spec.
func (t *Task) Given() driver.Fetched {
	return driver.Fetched{Ref: driver.Ref{ID: t.ID, Token: t.Token}, Spec: t.Spec, Enqueued: t.Enqueued,
		Attempts: t.Attempts, Crashes: t.Crashes, Snoozes: t.Snoozes, Granted: t.Granted, Suspect: t.Suspect, Damage: t.damage()}
}

func (t *Task) damage() string {
	if t.State != task.Damaged {
		return ""
	}
	return t.Reason
}

// Runs says whether t runs under the token of r.
func (t *Task) Runs(r driver.Ref) bool { return t.State == task.Running && t.Token == r.Token }

// Repeats says that c was carried out before, and the answer to it was lost. Only the worker that has or had t is
// answered so; had says that c is from it. Once t was given anew, its row no longer says which worker that was, and
// the token has to do.
func (t *Task) Repeats(c driver.Completion, had bool) bool {
	return t.Completed == c.Token && (had || t.Token != c.Token)
}

// Start notes that its work begins (rules Q1 and Q4).
func (t *Task) Start() Note {
	t.Begun = true
	if t.Unique != nil && t.Unique.Until == task.UntilStarted {
		t.Key = nil
	}
	return Note{}
}

// Finish ends a run of t, or t itself.
func (t *Task) Finish(c driver.Completion, now time.Time) Note {
	t.Completed = c.Token
	if c.Counts() {
		t.Attempts++
	}
	n := Note{Tried: t.tried(c)}
	switch c.Verdict {
	case driver.Success:
		t.end(task.Succeeded, c.Reason, now)
	case driver.Fail:
		t.end(task.Failed, c.Reason, now)
	case driver.Cancel:
		t.end(task.Canceled, c.Reason, now)
	case driver.Drop:
		t.end(task.Discarded, c.Reason, now)
	default:
		n.Count = t.again(c, now).Count
	}
	return n
}

// tried is an attempt that did not succeed. One that is not counted bears the number of the next that will be.
func (t *Task) tried(c driver.Completion) *task.Attempt {
	if c.Verdict == driver.Success || c.Outcome == "" {
		return nil
	}
	n := t.Attempts
	if !c.Counts() {
		n++
	}
	return &task.Attempt{N: n, Outcome: c.Outcome, Started: micro(c.Started), Ended: micro(c.Ended), Error: c.Error}
}

// again lets t wait for its next attempt. A task that was asked to stop has none.
func (t *Task) again(c driver.Completion, now time.Time) Note {
	if t.Stop != "" {
		return t.cancel(t.Stop, now)
	}
	t.Displaced = false
	switch c.Verdict {
	case driver.Retry, driver.Snooze:
		t.State, t.RunAt = task.Retryable, micro(now.Add(c.Delay))
		if c.Verdict == driver.Snooze {
			t.Snoozes++
		}
	case driver.Return:
		t.State = task.Available
	}
	return Note{}
}

// Rescue takes t from a worker that is gone. The death counts as a crash of t only if it was suspect already and its
// start was written (rule Q4). A task that was asked to stop is not tried again.
func (t *Task) Rescue(now time.Time) (n Note) {
	if t.Suspect && t.Begun {
		t.Crashes++
		n.Tried = &task.Attempt{N: t.Attempts + 1, Outcome: "crashed", Started: t.Started, Ended: now}
	}
	t.Suspect, t.Displaced = true, false
	switch {
	case t.Crashes >= t.CrashBudget():
		t.end(task.Crashed, "", now)
		n.Count = counters.Crashed
	case t.Stop != "":
		n.Count = t.cancel(t.Stop, now).Count
	default:
		t.State = task.Available
		n.Count = counters.Rescued
	}
	return n
}

// Admits says whether a fetch may get a task of a class, given that it got a suspect already or not (rule Q4).
func Admits(r *driver.FetchRequest, class int, suspect bool) bool {
	switch class {
	case Suspect:
		return r.Suspects && !suspect
	case Crasher:
		return r.Suspects && r.Crashers && !suspect
	}
	return true
}
