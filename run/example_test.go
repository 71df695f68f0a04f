package run_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dibs-run/dibs/run"
)

// A run's attempts: the function is tried until it succeeds, or its limits are reached.
func ExampleAttempts() {
	target := run.Func(func(_ context.Context, c run.Call) error {
		if c.Attempt < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	attempts, outcome, _, recorded := run.Attempts(context.Background(), target, run.Call{Run: run.Record{ID: run.NewID()}, Output: io.Discard},
		run.Limits{Attempts: 5, Timeout: time.Minute}, time.Now)
	recorded()
	for _, a := range attempts {
		fmt.Printf("%d %s %s\n", a.N, a.Outcome, cmp.Or(a.Error, "-"))
	}
	fmt.Println(outcome)
	// Output:
	// 1 failed not yet
	// 2 failed not yet
	// 3 succeeded -
	// succeeded
}

// Work is told to stop by its context. The context's cause decides the outcome, and a context that
// ended with run.ErrCanceled makes the run canceled.
func ExampleAttempts_canceled() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	target := run.Func(func(ctx context.Context, _ run.Call) error {
		cancel(run.ErrCanceled) // in a program, another goroutine does it
		<-ctx.Done()
		return ctx.Err()
	})
	_, outcome, _, recorded := run.Attempts(ctx, target, run.Call{Run: run.Record{ID: run.NewID()}, Output: io.Discard},
		run.Limits{Attempts: 5}, time.Now)
	recorded()
	fmt.Println(outcome)
	// Output:
	// canceled
}

// A function is a Target. Its Call says which attempt of which run this is. The key is the same for
// every attempt and every re-run of a tick, so that a receiver can tell a repeated request from a new one.
func ExampleFunc() {
	var target run.Target = run.Func(func(_ context.Context, c run.Call) error {
		fmt.Println("attempt", c.Attempt, "of", c.Run.Job, "with the key", c.IdempotencyKey)
		return nil
	})
	result := target.Attempt(context.Background(), run.Call{Run: run.Record{ID: run.NewID(), Job: "shop/invoices"},
		Attempt: 1, IdempotencyKey: "shop/invoices@2026-03-01T04:15:00Z", Output: io.Discard})
	fmt.Println(result.Outcome, result.Err)
	// Output:
	// attempt 1 of shop/invoices with the key shop/invoices@2026-03-01T04:15:00Z
	// succeeded <nil>
}

// An outcome is of work that was started, or of a tick for which nothing was.
func ExampleOutcome_Ran() {
	for _, o := range []run.Outcome{run.Succeeded, run.TimedOut, run.Missed} {
		fmt.Println(o, o.Ran())
	}
	// Output:
	// succeeded true
	// timed_out true
	// missed false
}
