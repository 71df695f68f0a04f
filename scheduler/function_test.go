package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// ofFunction is a job whose work is a Go function.
func ofFunction(t *testing.T, name string, target run.Target) *scheduler.Job {
	t.Helper()
	j := newJob(t, "* * * * *", target, nil)
	j.Spec.Name, j.Spec.Function = name, &job.Function{Name: "main." + name}
	return j
}

// Rule T11: only its own program can run a function. Another program, with a manifest under the same app,
// neither takes the job over nor ends it, and is told so; the program itself may do both.
func TestAFunctionIsLeftToItsProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		program, manifest := w.host(1, 0), w.host(2, 0)
		program.start(t, ofFunction(t, "j", w.target(0)))
		before := w.registry(t)
		time.Sleep(time.Minute + time.Second)

		other := newJob(t, "* * * * *", w.target(0), nil)
		other.Spec.Name = "other"
		for name, jobs := range map[string][]*scheduler.Job{"the same job": {newJob(t, "* * * * *", w.target(0), nil)}, "another job": {other}, "none": {}} {
			err := manifest.Load(t.Context(), jobs)
			if !errors.Is(err, scheduler.ErrFunction) || !strings.Contains(err.Error(), "dibs job forget app/j") {
				t.Errorf("%s was loaded: %v", name, err)
			}
		}
		due := time.Now().Truncate(time.Minute)
		_, _, err := manifest.backend.Trigger(t.Context(), t.Context(), newJob(t, "* * * * *", w.target(0), nil), due)
		if !errors.Is(err, scheduler.ErrFunction) {
			t.Errorf("it was triggered: %v", err)
		}
		if after := w.registry(t); after != before {
			t.Errorf("it was refused, and registered all the same:\n%s\nbefore:\n%s", after, before)
		}

		rows := w.history()
		if len(rows) == 0 {
			t.Fatal("nothing ran")
		}
		runs, err := w.b.Store().History.Runs(t.Context(), history.Query{Job: rows[0].Job, Limit: 1})
		if err != nil || len(runs) == 0 || runs[0].Command != "go main.j" {
			t.Errorf("the runs are %+v: %v", runs, err)
		}
		if err := program.Load(t.Context(), []*scheduler.Job{ofFunction(t, "k", w.target(0))}); err != nil {
			t.Errorf("a program does not get rid of its own function: %v", err)
		}
		program.stop()
	})
}
