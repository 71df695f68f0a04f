package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/postgres"
)

type user struct{ Name string }

var welcome = dibs.Define[user]("welcome")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := dibs.New(st, dibs.Options{App: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// At 4:15 in Berlin, once in the fleet; tried three times, and run later if no server was there.
	_ = c.Cron("reports", "15 4 * * *", func(ctx context.Context, t dibs.Tick) error {
		// The import of another program uses the same lock.
		return c.Do(ctx, "warehouse", func(ctx context.Context, l *lease.Lease) error {
			return report(ctx, t.At, int64(l.Token()))
		}, dibs.LockOptions{Wait: 10 * time.Minute})
	}, dibs.CronOptions{Zone: "Europe/Berlin", Attempts: 3, CatchUp: "latest"})

	// A task every Monday at nine, for any worker of its kind.
	_ = c.CronTask("newsletter", "0 9 * * MON", welcome.Spec(user{"everybody"}))
	_ = dibs.Handle(c, welcome, send, queue.Handler{Timeout: time.Minute})

	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func report(ctx context.Context, day time.Time, token int64) error { return ctx.Err() }

func send(ctx context.Context, t *dibs.Task, u user) error {
	log.Printf("welcome, %s", u.Name)
	return nil
}
