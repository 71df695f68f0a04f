package mysql

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A look is left out only where it was empty and dear several times in a row, and never for longer than a second.
func TestDearLooksAreLeftOut(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at, other := look{1, 0}, look{2, 0}
	var q quiet
	saw := func(found bool, cost time.Duration) { q.saw(map[look]bool{at: found}, cost, now) }
	for range dearLooks - 1 {
		saw(false, time.Minute)
	}
	saw(false, costly-1)
	for range dearLooks - 1 {
		saw(false, costly)
	}
	if q.skips(at, now) {
		t.Error("one that was cheap in between is left out")
	}
	saw(false, costly)
	if !q.skips(at, now) || q.skips(other, now) {
		t.Errorf("left out: %v; another sub-queue: %v", q.skips(at, now), q.skips(other, now))
	}
	if q.skips(at, now.Add(restShare*costly)) {
		t.Error("it is left out for longer than its share of the time asks for")
	}
	saw(false, time.Hour)
	if !q.skips(at, now.Add(mostQuiet-1)) || q.skips(at, now.Add(mostQuiet)) {
		t.Error("it is not left out for just as long as one may be")
	}
	saw(true, time.Hour)
	if q.skips(at, now) {
		t.Error("one that found something is left out")
	}
}

// What this process made available is seen at once, whatever looks cost: what it enqueued, alone or under a limit,
// what it put back, and what became due. What another one enqueued is seen a second later.
func TestWhatThisProcessDidIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	w := joined(t, s)
	at := subQueueNumber(subQueueName{"q", "k"})
	hushAt := func(now time.Time) { // as if each look had been dear
		for range dearLooks {
			s.Queue.(queues).known.quiet.saw(map[look]bool{{at, lifecycle.Clear}: false, {at, lifecycle.Suspect}: false}, time.Hour, now)
		}
	}
	hush := func() { hushAt(time.Now().Add(time.Hour)) } // longer than the test
	enqueue(t, s.Queue, spec())                          // the sub-queue is known from here on
	complete(t, s.Queue, w, fetchSome(t, s, w, 1).Tasks...)
	for what, do := range map[string]func(){
		"enqueued":               func() { hush(); enqueue(t, s.Queue, spec()) },
		"enqueued under a limit": func() { hush(); enqueue(t, s.Queue, spec(limitOf("l", 1))) },
		"enqueued with a key":    func() { hush(); enqueue(t, s.Queue, spec(uniqueKey("u"))) },
		"retried by an operator": func() {
			id := enqueue(t, s.Queue, spec())[0].ID
			if _, err := s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}}); err != nil {
				t.Fatal(err)
			}
			hush()
			if _, err := s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpRetry, IDs: []task.ID{id}}); err != nil {
				t.Fatal(err)
			}
		},
		"let in by another's end": func() {
			enqueue(t, s.Queue, spec(limitOf("m", 1)), spec(limitOf("m", 1)))
			first := fetchSome(t, s, w, 1).Tasks
			hush()
			complete(t, s.Queue, w, first...)
		},
	} {
		do()
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 1 {
			t.Errorf("%s: %d tasks are seen", what, len(f.Tasks))
		}
		complete(t, s.Queue, w, f.Tasks...)
	}
	enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Delay = 50 * time.Millisecond }))
	eventually(t, "what became due is seen", func() bool {
		hush() // again and again: nothing but its instant has it looked for
		f := fetchSome(t, s, w, 1)
		complete(t, s.Queue, w, f.Tasks...)
		return len(f.Tasks) == 1
	})
	hush()
	enqueue(t, mustOpen(t, c).Queue, spec())
	if f := fetchSome(t, s, w, 1); len(f.Tasks) != 0 {
		t.Error("a dear look was not left out")
	}
	hushAt(time.Now())
	eventually(t, "another's task is seen", func() bool { return len(fetchSome(t, s, w, 1).Tasks) == 1 })
}
