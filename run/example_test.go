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
