package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What a handler said, against what had ended its context. A handler's final word stands in a shutdown too: work that
// must not be done again is not handed back.
// Holds: promises 19, 20, 21, Q6.
func TestWhatIsDecided(t *testing.T) {
	says := []struct {
		name string
		err  error
	}{
		{"nil", nil}, {"plain", errors.New("no")}, {"final", Final(errors.New("no"))}, {"give up", GiveUp("moot")},
		{"postpone", Postpone(time.Minute)}, {"retry after", RetryAfter(time.Minute, errors.New("no"))},
	}
	const (
		done    = "success"
		retry   = "retry failed"
		late    = "retry timed_out"
		final   = "fail failed: final"
		drop    = "drop discarded: worker"
		snooze  = "snooze snoozed"
		back    = "return returned"
		cancel  = "cancel canceled: operator"
		nothing = "nothing"
	)
	for _, c := range []struct {
		cause error
		want  [6]string
	}{
		{nil, [6]string{done, retry, final, drop, snooze, retry}},
		{ErrTimedOut, [6]string{done, late, final, drop, snooze, late}},
		{ErrShutdown, [6]string{done, back, final, drop, back, back}},
		{ErrStopped, [6]string{done, cancel, cancel, cancel, cancel, cancel}},
		{fmt.Errorf("the %w", lease.ErrLost), [6]string{nothing, nothing, nothing, nothing, nothing, nothing}},
		{errForgotten, [6]string{nothing, nothing, nothing, nothing, nothing, nothing}},
	} {
		for i, s := range says {
			got := decided(ended{task: &driver.Fetched{}, attempt: 1, says: read(s.err), cause: c.cause, stop: task.ReasonOperator})
			if got != c.want[i] {
				t.Errorf("%s, after its context ended with %v: %q, want %q", s.name, c.cause, got, c.want[i])
			}
		}
	}
}

// decided is what happens to a task, in words.
func decided(e ended) string {
	c, ok := decide(e)
	if !ok {
		return "nothing"
	}
	verdict := map[driver.Verdict]string{driver.Success: "success", driver.Retry: "retry", driver.Fail: "fail",
		driver.Cancel: "cancel", driver.Drop: "drop", driver.Snooze: "snooze", driver.Return: "return"}[c.Verdict]
	text := strings.TrimSpace(verdict + " " + c.Outcome)
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// Attempts, postponements and the time for retries end exactly at their bounds.
// Holds: promise 20, Q6.
func TestBudgetsEndAtTheirBounds(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	fails := read(errors.New("no"))
	for _, c := range []struct{ budget, attempt int }{
		{1, 1}, {3, 2}, {3, 3}, {3, 4}, {0, task.DefaultMaxAttempts - 1}, {0, task.DefaultMaxAttempts},
	} {
		f := &driver.Fetched{Spec: Spec{Options: Options{MaxAttempts: c.budget}}}
		want, budget := driver.Retry, f.AttemptBudget()
		if c.attempt >= budget {
			want = driver.Fail
		}
		if got, _ := decide(ended{task: f, attempt: c.attempt, says: fails}); got.Verdict != want || want == driver.Fail && got.Delay != 0 {
			t.Errorf("attempt %d of %d: %+v", c.attempt, budget, got)
		}
	}
	for _, c := range []struct{ budget, snoozes int }{
		{1, 0}, {1, 1}, {2, 1}, {2, 2}, {2, 3}, {0, task.DefaultMaxSnoozes - 1}, {0, task.DefaultMaxSnoozes},
	} {
		f := &driver.Fetched{Spec: Spec{Options: Options{MaxSnoozes: c.budget}}, Snoozes: c.snoozes}
		want := driver.Snooze
		if c.snoozes >= f.SnoozeBudget() {
			want = driver.Fail
		}
		if got, _ := decide(ended{task: f, attempt: 1, says: read(Postpone(time.Hour))}); got.Verdict != want {
			t.Errorf("postponed %d times of %d: %+v", c.snoozes, f.SnoozeBudget(), got)
		}
	}
	const pause = time.Minute
	for left, want := range map[time.Duration]driver.Verdict{pause - 1: driver.Fail, pause: driver.Retry, pause + 1: driver.Retry} {
		f := &driver.Fetched{Spec: Spec{Options: Options{RetryUntil: now.Add(left)}}}
		got, _ := decide(ended{task: f, attempt: 1, says: read(RetryAfter(pause, errors.New("no"))), started: now.Add(-time.Hour), ended: now})
		if got.Verdict != want {
			t.Errorf("a retry in %s, with %s left: %+v", pause, left, got)
		}
	}
}

// A task whose time ran out while it waited ends only after that instant, and only if it was tried since it was last
// granted attempts.
// Holds: promise 20.
func TestATaskIsOverdueAfterItsInstant(t *testing.T) {
	until := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		until             time.Time
		attempts, granted int
		now               time.Duration // after until
		want              bool
	}{
		{until, 1, 0, -1, false}, {until, 1, 0, 0, false}, {until, 1, 0, 1, true}, {until, 0, 0, time.Hour, false},
		{until, 3, 3, time.Hour, false}, {until, 4, 3, time.Hour, true}, {time.Time{}, 1, 0, time.Hour, false},
	} {
		f := &driver.Fetched{Ref: driver.Ref{ID: 7, Token: 8}, Spec: Spec{Options: Options{RetryUntil: c.until}}, Attempts: c.attempts, Granted: c.granted}
		got, over := overdue(f, until.Add(c.now))
		if over != c.want || over && (got.Verdict != driver.Fail || got.Ref != f.Ref || got.Outcome != "") {
			t.Errorf("%+v: %v, %+v", c, over, got)
		}
	}
}

// The handler's own word comes first, then the task's back-off, then the handler's, then the default.
// Holds: promise 20.
func TestWhichPauseCounts(t *testing.T) {
	plain, says := errors.New("no"), RetryAfter(3*time.Minute, errors.New("no"))
	own := &Backoff{List: []time.Duration{time.Minute, 2 * time.Minute}, NoJitter: true}
	for _, c := range []struct {
		name      string
		err       error
		task      *Backoff
		handlers  time.Duration // negative: none
		attempt   int
		low, high time.Duration
	}{
		{"the handler's word", says, own, time.Hour, 1, 3 * time.Minute, 3 * time.Minute},
		{"the task's", plain, own, time.Hour, 1, time.Minute, time.Minute},
		{"the task's second", plain, own, time.Hour, 2, 2 * time.Minute, 2 * time.Minute},
		{"the handler's", plain, nil, time.Hour, 1, time.Hour, time.Hour},
		{"the handler's, which is none", plain, nil, 0, 3, 0, 0},
		{"the default", plain, nil, -1, 1, time.Second / 2, time.Second},
		{"the default's third", plain, nil, -1, 3, 2 * time.Second, 4 * time.Second},
	} {
		e := ended{task: &driver.Fetched{Spec: Spec{Options: Options{Backoff: c.task}}}, attempt: c.attempt, says: read(c.err),
			pause: max(c.handlers, 0), paused: c.handlers >= 0}
		if got, _ := decide(e); got.Delay < c.low || got.Delay > c.high {
			t.Errorf("%s: %s, want %s to %s", c.name, got.Delay, c.low, c.high)
		}
	}
}

// An error's text is kept whole up to its bound, and is text that every store takes.
func TestAnErrorsTextIsBounded(t *testing.T) {
	const most = 8 << 10
	for n, want := range map[int]int{0: 0, most - 1: most - 1, most: most, most + 1: most + len("…"), 10 * most: most + len("…")} {
		if got := bounded(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("of %d bytes %d are kept", n, len(got))
		}
	}
	if got := bounded("a\x00b\xffc"); got != "ab�c" {
		t.Errorf("%q", got)
	}
	if got := bounded("x" + strings.Repeat("é", most)); strings.ToValidUTF8(got, "?") != got {
		t.Error("it is cut within a character")
	}
}

// How far a worker fetches ahead, and when it fetches again, at and beside each bound.
func TestHowMuchIsFetchedAhead(t *testing.T) {
	const pace = ahead // a slot ends one task in that time
	for _, c := range []struct {
		slots, prefetch int
		pace            time.Duration
		capacity, low   int
	}{
		{10, 1000, 0, 10, 9}, {10, 1000, time.Hour, 10, 9}, {10, 1000, 10*pace + 1, 10, 9}, {10, 1000, 10 * pace, 11, 10},
		{10, 1000, pace, 20, 10}, {10, 1000, pace / 10, 110, 55}, {10, 15, pace / 10, 25, 12}, {10, 0, pace / 10, 10, 9},
		{1, 1000, pace + 1, 1, 0}, {1, 1000, pace, 2, 1}, {1, 1000, 1, 1001, 500},
	} {
		s := &session{w: &Worker{o: WorkerOptions{Slots: c.slots, Prefetch: c.prefetch}}}
		s.pace.Store(int64(c.pace))
		if capacity, low := s.capacity(), s.low(); capacity != c.capacity || low != c.low {
			t.Errorf("%d slots, %d ahead, %s a task: %d, again at %d; want %d, %d", c.slots, c.prefetch, c.pace, capacity, low, c.capacity, c.low)
		}
	}
}

// An appetite halves after a silence, never to nothing, and doubles again after a quick answer or ten slow ones.
// Holds: promise 26.
func TestAppetite(t *testing.T) {
	const most = 2 * time.Second
	a := newAppetite()
	if a.tasks != maxBatch || a.bytes != mostFetched {
		t.Errorf("at first: %+v", a)
	}
	a.feed(0, most)
	if a.tasks != maxBatch || a.bytes != mostFetched {
		t.Errorf("beyond what is asked for at most: %+v", a)
	}
	for range 30 {
		a.starve()
	}
	if a.tasks != 1 || a.bytes != 1 {
		t.Errorf("after thirty silences: %+v", a)
	}
	a.feed(most/4, most)
	if a.tasks != 1 {
		t.Errorf("after one slow answer: %+v", a)
	}
	a.feed(most/4-1, most)
	if a.tasks != 2 || a.bytes != 2 {
		t.Errorf("after a quick answer: %+v", a)
	}
	for n := range 10 {
		if a.tasks != 2 {
			t.Errorf("after %d slow answers: %+v", n, a)
		}
		a.feed(most, most)
	}
	if a.tasks != 4 {
		t.Errorf("after ten slow answers: %+v", a)
	}
	for range 9 {
		a.feed(most, most)
	}
	a.starve()
	a.feed(most, most)
	if a.tasks != 2 {
		t.Errorf("slow answers before a silence count after it: %+v", a)
	}
}
