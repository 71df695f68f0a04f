package explain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// Promise 10: the whole fleet of outcomes, with each reason of a skip (rule T5). Each is brought
// about; then its row says so, with runs where something ran, and so does the account of it.
// Holds: promise 10, T5.
func TestEveryOutcome(t *testing.T) {
	policy := func(c job.Concurrency, grace time.Duration) func(*job.Policy) {
		return func(p *job.Policy) { p.Concurrency, p.StopGrace = c, grace }
	}
	// hour is a job whose tick is due at 01:00, and serve has one server run it until then, and a while longer.
	type scene func(w world, t *testing.T)
	serve := func(target run.Target, change func(*job.Policy), longer time.Duration) scene {
		return func(w world, t *testing.T) {
			_, stop := w.serve("web-1", hourly(t, target, change))
			t.Cleanup(stop)
			time.Sleep(time.Hour + longer)
		}
	}
	// beside has somebody hold the job's key before its tick.
	beside := func(target run.Target, change func(*job.Policy), then scene) scene {
		return func(w world, t *testing.T) {
			p, _ := w.backend("web-9")
			held := job.DefaultPolicy(true)
			change(&held)
			ctx, cancel := context.WithCancelCause(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.Fire(ctx, scheduler.Fire{Key: "app/j", Target: target, Policy: held, Limits: run.Limits{Attempts: 1}})
			}()
			t.Cleanup(func() { cancel(run.ErrShutdown); <-done })
			time.Sleep(time.Second)
			then(w, t)
		}
	}
	deaf := run.Func(func(context.Context, run.Call) error { time.Sleep(3 * time.Hour); return nil })
	failing := run.Func(func(context.Context, run.Call) error { return errors.New("exit status 3") })
	at := "01:00"
	for _, c := range []struct {
		name, at string
		scene    scene
		outcome  run.Outcome
		reason   string // a part of it
	}{
		{"succeeded", at, serve(works(time.Second), nil, time.Minute), run.Succeeded, ""},
		{"failed", at, serve(failing, nil, time.Minute), run.Failed, "exit status 3"},
		{"timed out", at, serve(works(time.Hour), func(p *job.Policy) { p.Timeout = time.Minute }, 2*time.Minute), run.TimedOut, ""},
		{"replaced", at, serve(works(2*time.Hour), policy(job.Replace, time.Second), time.Hour+time.Minute), run.Replaced, "replaced"},
		{"canceled", at, func(w world, t *testing.T) {
			_, stop := w.serve("web-1", hourly(t, works(time.Hour), nil))
			time.Sleep(time.Hour + time.Minute)
			stop()
		}, run.Canceled, run.ReasonShutdown},
		{"lost", at, func(w world, t *testing.T) {
			cut, stop := w.serve("web-1", hourly(t, works(time.Hour/2), nil))
			t.Cleanup(stop)
			time.Sleep(time.Hour)
			cut(true)
			time.Sleep(time.Minute)
			cut(false)
			time.Sleep(time.Minute)
		}, run.Lost, "no answer from the store"},
		{"crashed", at, func(w world, t *testing.T) {
			cut, stop := w.serve("web-1", hourly(t, works(time.Hour/2), nil))
			t.Cleanup(stop)
			time.Sleep(time.Hour)
			cut(true)
			_, other := w.serve("web-2", hourly(t, works(time.Second), nil))
			t.Cleanup(other)
			time.Sleep(time.Minute)
		}, run.Crashed, "lost its lease and did not report"},
		{"overlap", "02:00", serve(works(90*time.Minute), nil, time.Hour+time.Minute), run.Skipped, run.ReasonOverlap},
		{"queue full", "03:00", serve(works(150*time.Minute), policy(job.Wait, time.Second), 2*time.Hour+time.Minute), run.Skipped, run.ReasonQueueFull},
		{"superseded", at, beside(deaf, policy(job.Replace, time.Hour), func(w world, t *testing.T) {
			_, stop := w.serve("web-1", hourly(t, works(time.Second), policy(job.Replace, time.Hour)))
			t.Cleanup(stop)
			time.Sleep(2*time.Hour + time.Minute)
		}), run.Skipped, run.ReasonSuperseded},
		{"holder stuck", at, beside(deaf, policy(job.Replace, time.Hour), serve(works(time.Second), policy(job.Replace, time.Second), 5*time.Minute)), run.Skipped, run.ReasonHolderStuck},
		{"when", at, func(w world, t *testing.T) {
			j := hourly(t, works(time.Second), nil)
			j.When = func(context.Context) (bool, error) { return false, nil }
			_, stop := w.serve("web-1", j)
			t.Cleanup(stop)
			time.Sleep(time.Hour + time.Minute)
		}, run.Skipped, run.ReasonWhen},
		{"window", at, serve(works(time.Second), func(p *job.Policy) { p.Between = []string{"08:00-18:00"} }, 10*time.Minute), run.Skipped, run.ReasonWindow},
		{"missed", at, func(w world, t *testing.T) {
			_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
			stop()
			time.Sleep(90 * time.Minute)
			_, stop = w.serve("web-2", hourly(t, works(time.Second), nil))
			t.Cleanup(stop)
			time.Sleep(time.Minute)
		}, run.Missed, "no server claimed it in time"},
		{"paused", at, func(w world, t *testing.T) {
			_, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
			t.Cleanup(stop)
			p, _ := w.backend("laptop")
			if _, err := p.Pause(t.Context(), tick.PauseRequest{Job: "app/j", By: "ann", Why: "a move"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour + 10*time.Minute)
		}, run.Paused, "paused by ann"},
		{"unavailable", at, func(w world, t *testing.T) {
			cut, stop := w.serve("web-1", hourly(t, works(time.Second), nil))
			t.Cleanup(stop)
			time.Sleep(30 * time.Minute)
			cut(true)
			time.Sleep(36 * time.Minute)
			cut(false)
			time.Sleep(time.Minute)
		}, run.Unavailable, "seen by web-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w world) {
				c.scene(w, t)
				a := w.explain(c.at)
				w.want(a, string(c.outcome))
				if !strings.Contains(a.Reason, c.reason) || a.Unsettled {
					t.Errorf("reason %q (unsettled: %v), want %q", a.Reason, a.Unsettled, c.reason)
				}
				if ran := len(a.Runs) > 0; ran != c.outcome.Ran() {
					t.Errorf("%s with the runs %+v", c.outcome, a.Runs)
				}
				rows, err := w.b.Store().History.Ticks(t.Context(), history.Query{Job: "app/j", From: a.Tick, To: a.Tick.Add(time.Second)})
				if err != nil || len(rows) != 1 || rows[0].Outcome != c.outcome || rows[0].Reason != a.Reason {
					t.Errorf("history has %+v %v, and the account says %s (%s)", rows, err, a.Outcome, a.Reason)
				}
			})
		})
	}
}
