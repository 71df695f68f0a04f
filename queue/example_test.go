package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
)

type user struct{ Name string }

var welcome = queue.Define[user]("welcome")

// A Client enqueues, and a Worker of this or another process does the work. Package dibs puts both together.
func Example() {
	st := memory.New(memory.Options{}).Store() // in production: store/postgres, store/redis, …
	client := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	e, err := client.Enqueue(ctx, welcome.Spec(user{"Ann"}))
	fmt.Println(e.Answer, err)

	var mux queue.Mux
	welcome.Handle(&mux, func(_ context.Context, r *queue.Run, u user) error {
		fmt.Printf("welcome, %s: attempt %d\n", u.Name, r.Attempt)
		stop() // a program stops its worker on SIGTERM
		return nil
	}, queue.Handler{Timeout: time.Minute})
	fmt.Println("error:", work(ctx, st, &mux))
	// Output:
	// enqueued <nil>
	// welcome, Ann: attempt 1
	// error: <nil>
}

// work runs a worker until ctx ends.
func work(ctx context.Context, st *store.Store, mux *queue.Mux) error {
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		return err
	}
	defer keeper.Close()
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: keeper, Mux: mux})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// Of a unique key there is one task: the answer to a second one says which task that is, and where it stands.
func ExampleUnique() {
	st := memory.New(memory.Options{}).Store()
	client := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer client.Close()

	spec := welcome.Spec(user{"Ann"})
	spec.Unique = &queue.Unique{Key: "user-7"}
	first, err := client.Enqueue(context.Background(), spec)
	fmt.Println(first.Answer, err)
	second, err := client.Enqueue(context.Background(), spec)
	fmt.Println(second.Answer, second.State, second.ID == first.ID, err)
	if second.Answer == queue.Duplicate {
		fmt.Println("Ann is welcomed once")
	}
	// Output:
	// enqueued <nil>
	// duplicate available true <nil>
	// Ann is welcomed once
}

// Of the tasks of a limit, no more run at the same time than it says, however many workers and slots there are.
func ExampleLimit() {
	st := memory.New(memory.Options{}).Store()
	client := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())

	for _, name := range []string{"Ann", "Ben", "Cas"} {
		spec := welcome.Spec(user{name})
		spec.Limit = &queue.Limit{Key: "mail", Max: 1}
		if _, err := client.Enqueue(ctx, spec); err != nil {
			fmt.Println(err)
		}
	}
	var mux queue.Mux
	var running atomic.Int32
	welcome.Handle(&mux, func(_ context.Context, _ *queue.Run, u user) error {
		fmt.Println(u.Name, "with", running.Add(1)-1, "others")
		time.Sleep(time.Millisecond) // the work
		running.Add(-1)
		if u.Name == "Cas" {
			stop()
		}
		return nil
	}, queue.Handler{})
	fmt.Println("error:", work(ctx, st, &mux))
	// Output:
	// Ann with 0 others
	// Ben with 0 others
	// Cas with 0 others
	// error: <nil>
}
