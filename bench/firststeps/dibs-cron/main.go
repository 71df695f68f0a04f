package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/store/redis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	st, err := redis.Open(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := dibs.New(st, dibs.Options{App: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	_ = c.Cron("reports", "15 4 * * *", report) // what is wrong with it, Run says
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func report(ctx context.Context, t dibs.Tick) error {
	log.Printf("the report of %s", t.At)
	return nil
}
