package life

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// Give gives t to a worker, under a token that is larger than every earlier one of t and than above, the last one of
// its limit (rule L10).
func (t *Task) Give(above lease.Token, now time.Time) Note {
	t.Token = max(t.Token+1, above+1, lease.Token(now.UnixMicro()))
	t.State, t.Started, t.Begun, t.Stop = queue.Running, now, false, ""
	return Note{}
}

// Given is what the worker gets. It shares t's Spec.
func (t *Task) Given() queue.Fetched {
	return queue.Fetched{Ref: queue.Ref{ID: t.ID, Token: t.Token}, Spec: t.Spec, Enqueued: t.Enqueued,
		Attempts: t.Attempts, Crashes: t.Crashes, Snoozes: t.Snoozes, Granted: t.Granted, Suspect: t.Suspect}
}

// Runs says whether t runs under the token of r.
func (t *Task) Runs(r queue.Ref) bool { return t.State == queue.Running && t.Token == r.Token }

// Repeats says that c was carried out before, and the answer to it was lost. Only the worker that has or had t is
// answered so; had says that c is from it. Once t was given anew, its row no longer says which worker that was, and
// the token has to do.
func (t *Task) Repeats(c queue.Completion, had bool) bool {
	return t.Completed == c.Token && (had || t.Token != c.Token)
}

// Start notes that its work begins (rules Q1 and Q4).
func (t *Task) Start() Note {
	t.Begun = true
	if t.Unique != nil && t.Unique.Until == queue.UntilStarted {
		t.Key = nil
	}
	return Note{}
}

// Finish ends a run of t, or t itself.
func (t *Task) Finish(c queue.Completion, now time.Time) Note {
	t.Completed = c.Token
	if c.Counts() {
		t.Attempts++
	}
	n := Note{Tried: t.tried(c)}
	switch c.Verdict {
	case queue.Success:
		t.end(queue.Succeeded, c.Reason, now)
	case queue.Fail:
		t.end(queue.Failed, c.Reason, now)
	case queue.Cancel:
		t.end(queue.Canceled, c.Reason, now)
	case queue.Drop:
		t.end(queue.Discarded, c.Reason, now)
	default:
		n.Count = t.again(c, now).Count
	}
	return n
}

// tried is an attempt that did not succeed. One that is not counted bears the number of the next that will be.
func (t *Task) tried(c queue.Completion) *queue.Attempt {
	if c.Verdict == queue.Success || c.Outcome == "" {
		return nil
	}
	n := t.Attempts
	if !c.Counts() {
		n++
	}
	return &queue.Attempt{N: n, Outcome: c.Outcome, Started: micro(c.Started), Ended: micro(c.Ended), Error: c.Error}
}

// again lets t wait for its next attempt. A task that was asked to stop has none.
func (t *Task) again(c queue.Completion, now time.Time) Note {
	if t.Stop != "" {
		return t.cancel(t.Stop, now)
	}
	t.Displaced = false
	switch c.Verdict {
	case queue.Retry, queue.Snooze:
		t.State, t.RunAt = queue.Retryable, micro(now.Add(c.Delay))
		if c.Verdict == queue.Snooze {
			t.Snoozes++
		}
	case queue.Return:
		t.State = queue.Available
	}
	return Note{}
}

// Rescue takes t from a worker that is gone. The death is charged to t only if it was suspect already and its start
// was written (rule Q4). A task that was asked to stop is not tried again.
func (t *Task) Rescue(now time.Time) (n Note) {
	if t.Suspect && t.Begun {
		t.Crashes++
		n.Tried = &queue.Attempt{N: t.Attempts + 1, Outcome: "crashed", Started: t.Started, Ended: now}
	}
	t.Suspect, t.Displaced = true, false
	switch {
	case t.Crashes >= t.CrashBudget():
		t.end(queue.Crashed, "", now)
		n.Count = queue.CountCrashed
	case t.Stop != "":
		n.Count = t.cancel(t.Stop, now).Count
	default:
		t.State = queue.Available
		n.Count = queue.CountRescued
	}
	return n
}

// Admits says whether a fetch may get a task of a class, given that it got a suspect already or not (rule Q4).
func Admits(r *queue.FetchRequest, class int, suspect bool) bool {
	switch class {
	case Suspect:
		return r.Suspects && !suspect
	case Charged:
		return r.Suspects && r.Charged && !suspect
	}
	return true
}

// A Bucket bounds how many tasks of a kind are fetched: it fills with time.
type Bucket struct {
	Each  time.Duration // the time that one task costs
	Burst time.Duration // how far ahead of now Full may be
	Full  time.Time     // when it is full again
}

// BucketOf is the bucket of a rate, a full one; none where the rate bounds nothing.
func BucketOf(r queue.Rate) (b Bucket, bounds bool) {
	if r.Count <= 0 || r.Per <= 0 {
		return b, false
	}
	b.Each = r.Per / time.Duration(r.Count)
	if r.Burst <= 0 {
		r.Burst = r.Count
	}
	b.Burst = b.Each * time.Duration(r.Burst)
	return b, true
}

// Ready says whether there is one left.
func (b *Bucket) Ready(now time.Time) bool { return b.Full.Add(b.Each).Sub(now) <= b.Burst }

// Take takes one.
func (b *Bucket) Take(now time.Time) {
	if b.Full.Before(now) {
		b.Full = now
	}
	b.Full = b.Full.Add(b.Each)
}

// Pace says how fast it fills, and when the next task may be taken.
func (b *Bucket) Pace() queue.Pace {
	return queue.Pace{Each: b.Each, Next: b.Full.Add(b.Each - b.Burst)}
}
