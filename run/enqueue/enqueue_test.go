package enqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/enqueue"
	"github.com/dibs-run/dibs/task"
)

// answers is a queue that answers so, and notes what it was asked.
type answers struct {
	task.Enqueued
	err   error
	asked []task.Spec
}

func (a *answers) Enqueue(_ context.Context, s task.Spec) (task.Enqueued, error) {
	a.asked = append(a.asked, s)
	if err := s.Check(); err != nil {
		return task.Enqueued{}, err
	}
	return a.Enqueued, a.err
}

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func target(q enqueue.Queue) enqueue.Target {
	return enqueue.Target{Queue: q, Spec: task.Spec{Kind: "k", Queue: "q"}, Again: 24 * time.Hour,
		Now: func(context.Context) (time.Time, error) { return noon, nil }}
}

func call() (run.Call, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return run.Call{Run: run.Record{ID: "r-1", Job: "app/j", Tick: noon}, IdempotencyKey: "app/j@2026-12-01T12:00:00Z", Output: out}, out
}

// A run takes a queue's answer as its own.
// Holds: Q9.
func TestAnswers(t *testing.T) {
	silent := fmt.Errorf("%w: nobody answered", queue.ErrUnavailable)
	for name, c := range map[string]struct {
		answer  task.Enqueued
		err     error
		kind    string
		outcome run.Outcome
		final   bool
		says    string
	}{
		"taken in":      {task.Enqueued{Answer: task.New, ID: 7, State: task.Available}, nil, "k", run.Succeeded, false, "enqueued task 7 (k, queue q): available\n"},
		"there already": {task.Enqueued{Answer: task.Duplicate, ID: 7, State: task.Running}, nil, "k", run.Succeeded, false, "task 7 is this run's already: running\n"},
		"undecided":     {task.Enqueued{Answer: task.Undecided}, nil, "k", run.Failed, false, `the store answered "undecided"`},
		"no answer":     {task.Enqueued{}, silent, "k", run.Failed, false, "enqueueing it again is safe"},
		"no such task":  {task.Enqueued{}, nil, "", run.Failed, true, "task: kind: it is empty"},
	} {
		tg := target(&answers{Enqueued: c.answer, err: c.err})
		tg.Spec.Kind = c.kind
		cl, out := call()
		r := tg.Attempt(t.Context(), cl)
		if r.Err != nil {
			fmt.Fprint(out, r.Err)
		}
		if r.Outcome != c.outcome || r.Final != c.final || r.Task != int64(c.answer.ID) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %+v, %q", name, r, out)
		}
		if c.err != nil && !errors.Is(r.Err, queue.ErrUnavailable) {
			t.Errorf("%s: %v hides its cause", name, r.Err)
		}
	}
}

// The key is the tick's, for whatever attempt and whatever kind; it outlives the ticks that are run again.
// Holds: Q9.
func TestTheKeyIsTheTick(t *testing.T) {
	q := &answers{Enqueued: task.Enqueued{Answer: task.New}}
	tg := target(q)
	tg.Expires, tg.Retry = time.Minute, time.Hour
	cl, _ := call()
	tg.Attempt(t.Context(), cl)
	cl.Attempt, tg.Spec.Kind = 2, "renamed"
	tg.Attempt(t.Context(), cl)
	cl.Run.Tick, cl.IdempotencyKey = time.Time{}, cl.Run.ID
	tg.Attempt(t.Context(), cl)
	for i, key := range []string{"app/j@2026-12-01T12:00:00Z", "app/j@2026-12-01T12:00:00Z", "app/j@r-1"} {
		u := q.asked[i].Unique
		if u.Key != key || !u.Shared || u.Until != task.UntilFinished || u.Window != 25*time.Hour || u.Again != "" {
			t.Errorf("%d: %+v", i, u)
		}
		if !q.asked[i].RetryUntil.Equal(noon.Add(time.Hour)) {
			t.Errorf("%d: retries until %s", i, q.asked[i].RetryUntil)
		}
		if !q.asked[i].ExpiresAt.Equal(noon.Add(time.Minute)) {
			t.Errorf("%d: expires at %s", i, q.asked[i].ExpiresAt)
		}
	}
	if a, b := q.asked[0].Unique.Hash("k"), q.asked[1].Unique.Hash("renamed"); a != b {
		t.Error("a kind that was renamed meanwhile makes the same tick's task another one")
	}
	if tg.Spec.Unique != nil || !tg.Spec.ExpiresAt.IsZero() {
		t.Error("one attempt leaves something to the next")
	}
}

// A run that was told to stop, or that cannot tell the time, enqueues nothing.
func TestNothingIsEnqueuedAfterTheEnd(t *testing.T) {
	q := &answers{}
	ended, end := context.WithCancelCause(t.Context())
	end(run.ErrShutdown)
	cl, _ := call()
	if r := target(q).Attempt(ended, cl); r.Outcome != run.Failed || !errors.Is(r.Err, run.ErrShutdown) {
		t.Errorf("%+v", r)
	}
	tg := target(q)
	tg.Expires, tg.Now = time.Hour, func(context.Context) (time.Time, error) { return time.Time{}, queue.ErrUnavailable }
	if r := tg.Attempt(t.Context(), cl); r.Outcome != run.Failed || r.Final {
		t.Errorf("%+v", r)
	}
	if len(q.asked) > 0 {
		t.Errorf("asked for %+v", q.asked)
	}
}

// What could never be enqueued is refused before there is a run.
func TestCheck(t *testing.T) {
	if err := target(nil).Check(); err != nil {
		t.Error(err)
	}
	tg := target(nil)
	tg.Spec.Args = []byte("{")
	if err := tg.Check(); err == nil || !strings.Contains(err.Error(), "args") {
		t.Error(err)
	}
}
