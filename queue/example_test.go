package queue_test

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/memory"
)

// A Client enqueues, and a Worker of this or another process does the work. Package dibs puts both together.
func Example() {
	st := memory.New(memory.Options{}).Store() // in production: store/postgres, store/redis, …
	client := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer client.Close()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	type user struct{ Name string }
	welcome := queue.Define[user]("welcome")
	ctx, stop := context.WithCancel(context.Background())
	var mux queue.Mux
	welcome.Handle(&mux, func(_ context.Context, r *queue.Run, u user) error {
		fmt.Println("welcome,", u.Name)
		stop()
		return nil
	}, queue.Handler{})

	task := welcome.Spec(user{"Ann"})
	task.Unique = &queue.Unique{Key: "welcome-7"}
	for range 2 {
		e, err := client.Enqueue(ctx, task)
		fmt.Println(e.Answer, err)
	}
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: keeper, Mux: &mux})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("error:", worker.Run(ctx))
	// Output:
	// enqueued <nil>
	// duplicate <nil>
	// welcome, Ann
	// error: <nil>
}
