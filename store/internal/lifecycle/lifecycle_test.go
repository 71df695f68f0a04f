package lifecycle

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A task's steps are arrows of the drawing in docs/reference/queue.md, in whatever order they come, and what it leaves
// holds.
// Holds: promise 23.
func TestEachChangeIsAnArrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMicro(1_700_000_000_000_000).UTC()
		spec := drawSpec(t, now)
		x := New(Timed(spec, now), now)
		if !task.Allowed("", x.State) {
			t.Fatalf("begins as %s", x.State)
		}
		tries := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Second, time.Hour}).Draw(t, "time"))
			was := x
			n, what := step(t, &x, now)
			if what == "" {
				continue
			}
			if was.State != x.State && !task.Allowed(was.State, x.State) {
				t.Fatalf("%s: from %s to %s", what, was.State, x.State)
			}
			if n.Tried != nil {
				tries++
			}
			holds(t, &was, &x, what)
		}
	})
}

// holds is what is so after each change.
func holds(t *rapid.T, was, x *Task, what string) {
	switch {
	case x.Token < was.Token || what == "give" && x.Token == was.Token:
		t.Fatalf("%s: token %d after %d", what, x.Token, was.Token)
	case x.Attempts < was.Attempts || x.Attempts > was.Attempts+1:
		t.Fatalf("%s: %d attempts after %d", what, x.Attempts, was.Attempts)
	case x.Attempts != was.Attempts && what != "finish":
		t.Fatalf("%s: it counts as an attempt", what)
	case x.State.Final() == x.Ended.IsZero():
		t.Fatalf("%s: %s, ended %v", what, x.State, x.Ended)
	case x.Stop != "" && x.State != task.Running:
		t.Fatalf("%s: %s, and asked to stop", what, x.State)
	case x.Key != nil && x.State.Final() && (x.State != task.Succeeded || x.Window.IsZero()):
		t.Fatalf("%s: %s, and holds its key (window %v)", what, x.State, x.Window)
	case x.State == task.Crashed && x.Crashes < x.CrashBudget():
		t.Fatalf("%s: crashed after %d of %d", what, x.Crashes, x.CrashBudget())
	case was.Suspect && !x.Suspect:
		t.Fatalf("%s: it is no suspect any more", what)
	}
	if u := x.Unique; u != nil && u.Until != task.UntilStarted && !x.State.Final() && x.Key == nil {
		t.Fatalf("%s: %s, and has lost its key", what, x.State)
	}
}

func drawSpec(t *rapid.T, now time.Time) task.Spec {
	s := task.Spec{Kind: "k", Queue: "q", Delay: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "delay")}
	s.MaxCrashes = rapid.IntRange(0, 2).Draw(t, "crashes")
	if rapid.Bool().Draw(t, "expires") {
		s.ExpiresAt = now.Add(time.Minute)
	}
	switch rapid.IntRange(0, 3).Draw(t, "unique") {
	case 1:
		s.Unique = &task.Unique{Key: "u", Window: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "window")}
	case 2:
		s.Unique = &task.Unique{Key: "u", Until: task.UntilStarted, Again: task.Replace}
	case 3:
		s.Unique = &task.Unique{Key: "u", Until: task.UntilStarted, Again: task.Debounce, MaxWait: time.Minute}
	}
	if rapid.Bool().Draw(t, "limited") {
		s.Limit = &task.Limit{Key: "l", OnContention: rapid.SampledFrom([]task.Contention{"", task.Discard, task.Displace}).Draw(t, "contention")}
	}
	return s
}

// step does one of the things that may be done to x as it stands; empty where nothing may.
func step(t *rapid.T, x *Task, now time.Time) (n Note, what string) {
	acts := []driver.Operation{driver.OpRetry, driver.OpCancel, driver.OpDiscard, driver.OpPromote, driver.OpMove, driver.OpEdit}
	acts = slices.DeleteFunc(acts, func(a driver.Operation) bool { return !x.fits(a) })
	may := []string{}
	if len(acts) > 0 {
		may = append(may, "act")
	}
	switch {
	case x.State == task.Running:
		may = append(may, "start", "finish", "finish", "rescue")
	case x.State == task.Available && !x.Over(now):
		may = append(may, "give", "give")
	case x.Due(now) && !x.Over(now):
		may = append(may, "wait")
	}
	if x.Key != nil && x.LostKey(now) {
		may = append(may, "lose")
	}
	if x.Key != nil && x.State.Waiting() && Replaces(&x.Spec) {
		may = append(may, "renew")
	}
	if len(may) == 0 {
		return n, ""
	}
	switch what = rapid.SampledFrom(may).Draw(t, "what"); what {
	case "act":
		act := driver.OpRequest{Operation: rapid.SampledFrom(acts).Draw(t, "act"), Queue: "other"}
		later, priority := now.Add(time.Minute), 3
		act.Edit.RunAt, act.Edit.Priority = &later, &priority
		_, n = x.Operate(act, now)
	case "start":
		n = x.Start()
	case "finish":
		c := driver.Completion{Ref: driver.Ref{ID: x.ID, Token: x.Token}, Verdict: driver.Verdict(rapid.IntRange(1, 7).Draw(t, "verdict")), Delay: time.Second}
		if rapid.Bool().Draw(t, "began") {
			c.Outcome = "failed"
		}
		n = x.Finish(c, now)
	case "rescue":
		n = x.Rescue(now)
	case "give":
		n = x.Give(0, now)
	case "wait":
		n = x.Wait(now)
	case "lose":
		n = x.LoseKey(now)
	case "renew":
		s := x.Spec
		s.Delay = time.Second
		n = x.Renew(Timed(s, now), now)
	}
	return n, what
}

// A poisonous task ends: from its second death with its start written on, each counts as its crash (rule Q4).
// Holds: Q4.
func TestDeathsCountOnSuspicionOnly(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000).UTC()
	x := New(Timed(task.Spec{Kind: "k", Options: task.Options{MaxCrashes: 2}}, now), now)
	for i, want := range []struct {
		begun   bool
		crashes int
		class   int
		state   task.State
	}{
		{true, 0, Suspect, task.Available}, // nobody knows yet whose fault it was
		{false, 0, Suspect, task.Available},
		{true, 1, Crasher, task.Available},
		{true, 2, Crasher, task.Crashed},
	} {
		x.Give(0, now)
		if want.begun {
			x.Start()
		}
		n := x.Rescue(now)
		if x.Crashes != want.crashes || x.Class() != want.class || x.State != want.state || x.Attempts != 0 {
			t.Fatalf("death %d: %d crashes, class %d, %s, %d attempts", i+1, x.Crashes, x.Class(), x.State, x.Attempts)
		}
		if counts := i > 1; (n.Tried != nil) != counts {
			t.Fatalf("death %d: history gets %+v", i+1, n.Tried)
		}
	}
}

// Who ranks how: moved to the front comes before every priority.
func TestRank(t *testing.T) {
	front := func(p int, f bool) int {
		return (&Task{Task: driver.Task{Spec: task.Spec{Priority: p}, Front: f}}).Rank()
	}
	order := []int{front(task.MaxPriority, true), front(task.MinPriority, true), front(task.MaxPriority, false), front(0, false), front(task.MinPriority, false)}
	if !slices.IsSorted(order) || !IsFront(order[1]) || IsFront(order[2]) {
		t.Fatal(order)
	}
	for i, s := range States {
		if Number(s) != i {
			t.Fatal(s)
		}
	}
	if len(States) != len(task.States) {
		t.Fatal(States)
	}
}

// A repeated end is told in one way by the stores that decide here: the worker that had the task is known until it is
// given anew, and then the token has to do.
func TestRepeats(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000).UTC()
	x := New(Timed(task.Spec{Kind: "k"}, now), now)
	x.Give(0, now)
	first := driver.Completion{Ref: driver.Ref{Token: x.Token}, Verdict: driver.Retry}
	expect := func(when string, c driver.Completion, had, another bool) {
		t.Helper()
		if x.Repeats(c, true) != had || x.Repeats(c, false) != another {
			t.Errorf("%s: %v for the worker that it was of, %v for another", when, x.Repeats(c, true), x.Repeats(c, false))
		}
	}
	expect("while it runs", first, false, false)
	x.Finish(first, now)
	expect("when it has ended", first, true, false)
	x.Give(0, now)
	expect("when it was given anew", first, true, true)
	second := driver.Completion{Ref: driver.Ref{Token: x.Token}, Verdict: driver.Success}
	expect("the next run, while it runs", second, false, false)
	x.Finish(second, now)
	expect("after the next end", first, false, false)
	expect("the next end", second, true, false)
}
