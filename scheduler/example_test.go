package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// examplePlace is where the jobs of the examples have their leases, claims and history.
func exampleBackend() (*scheduler.Backend, error) {
	st := memory.New(memory.Options{}).Store() // in production: store/redis, store/postgres, …
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		return nil, err
	}
	self := lease.Holder{Host: "web-1", PID: 4711}
	return &scheduler.Backend{Name: st.URL, Keeper: keeper, Book: tick.NewBook(st.Ticks, keeper, self),
		Ticks: st.Ticks, History: st.History, Self: self, Log: slog.New(slog.DiscardHandler)}, nil
}

// A Fire is one run under a lease, recorded with its outcome.
func ExampleBackend_Fire() {
	backend, err := exampleBackend()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Keeper.Close()

	res := backend.Fire(context.Background(), scheduler.Fire{
		Key:    "reports",
		Policy: job.DefaultPolicy(false),
		Limits: run.Limits{Timeout: time.Minute, Attempts: 1},
		Target: run.Func(func(ctx context.Context, c run.Call) error {
			fmt.Println("attempt", c.Attempt, "of", c.Run.Job)
			return nil
		}),
	})
	fmt.Println(res.Outcome, res.Err)
	// Output:
	// attempt 1 of reports
	// succeeded <nil>
}

// A Server follows the schedules of jobs. Any number of them on one store share the ticks.
func ExampleServer() {
	backend, err := exampleBackend()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Keeper.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var once sync.Once
	cleanup := &scheduler.Job{
		Spec: job.Spec{App: "shop", Name: "cleanup", Schedules: []string{"@every 1s"}, Timezone: "UTC", Policy: job.DefaultPolicy(false)},
		Target: run.Func(func(_ context.Context, c run.Call) error {
			once.Do(func() {
				fmt.Println(c.Run.Job, "runs a tick on a whole second:", c.Run.Tick.Nanosecond() == 0)
				stop()
			})
			return nil
		}),
	}
	server := scheduler.NewServer(backend, "shop")
	if err := server.Load(ctx, []*scheduler.Job{cleanup}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("error:", server.Run(ctx, 10*time.Second)) // ends once what runs has ended
	// Output:
	// shop/cleanup runs a tick on a whole second: true
	// error: <nil>
}
