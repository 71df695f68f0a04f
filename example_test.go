package dibs_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
)

// opened is a store; a program opens its own: postgres.Open(ctx, url), redis.Open(ctx, url), …
func opened() *store.Store { return memory.New(memory.Options{}).Store() }

var options = dibs.Options{App: "shop", Logger: slog.New(slog.DiscardHandler)}

// A lock: one process of the fleet does it at a time.
func ExampleClient_Do() {
	c, err := dibs.New(opened(), options)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Do(context.Background(), "deploy", func(ctx context.Context, l *lease.Lease) error {
		fmt.Println("deploying, with a token:", l.Token() > 0)
		again := c.Do(ctx, "deploy", func(context.Context, *lease.Lease) error { return nil })
		fmt.Println("held by somebody:", again != nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// deploying, with a token: true
	// held by somebody: true
	// error: <nil>
}

// A scheduled function: each tick once in the fleet.
func ExampleClient_Cron() {
	c, err := dibs.New(opened(), options)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(context.Background()) // a program's ends on SIGTERM
	err = c.Cron("reports", "@every 1s", func(_ context.Context, t dibs.Tick) error {
		if ctx.Err() == nil {
			fmt.Println(t.Job, "attempt", t.Attempt, "on a whole second:", t.At.Nanosecond() == 0)
		}
		stop()
		return nil
	}, dibs.CronOptions{Zone: "Europe/Berlin", Attempts: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("error:", c.Run(ctx))
	// Output:
	// shop/reports attempt 1 on a whole second: true
	// error: <nil>
}

type user struct{ Name string }

var welcome = dibs.Define[user]("welcome")

// A typed task: enqueued by one process, worked by any.
func ExampleHandle() {
	c, err := dibs.New(opened(), options)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(context.Background())
	_ = dibs.Handle(c, welcome, func(_ context.Context, t *dibs.Task, u user) error {
		fmt.Println("welcome,", u.Name)
		stop()
		return nil
	})
	task := welcome.Spec(user{"Ann"})
	task.Unique = &queue.Unique{Key: "welcome-7"}
	for range 2 {
		e, err := c.Enqueue(ctx, task)
		fmt.Println(e.Answer, err)
	}
	fmt.Println("error:", c.Run(ctx))
	// Output:
	// enqueued <nil>
	// duplicate <nil>
	// welcome, Ann
	// error: <nil>
}

// All three in one program. Every server runs it.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := dibs.New(opened(), options)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_ = c.Cron("reports", "15 4 * * *", func(ctx context.Context, t dibs.Tick) error {
		return c.Do(ctx, "warehouse", func(context.Context, *lease.Lease) error { return nil })
	})
	_ = c.CronTask("newsletter", "0 9 * * MON", welcome.Spec(user{"everybody"})) // for whoever works that kind
	_ = dibs.Handle(c, welcome, func(_ context.Context, t *dibs.Task, u user) error {
		fmt.Println("welcome,", u.Name)
		stop()
		return nil
	}, queue.Handler{Timeout: time.Minute})
	if _, err := c.Enqueue(ctx, welcome.Spec(user{"Bob"})); err != nil {
		log.Fatal(err)
	}
	fmt.Println("error:", c.Run(ctx)) // says what Cron and Handle refused, else runs until SIGTERM
	// Output:
	// welcome, Bob
	// error: <nil>
}
