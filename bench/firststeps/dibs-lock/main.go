package main

import (
	"context"
	"log"
	"os"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/redis"
)

func main() {
	ctx := context.Background()
	st, err := redis.Open(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := dibs.New(st, dibs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = c.Do(ctx, "deploy", func(ctx context.Context, l *lease.Lease) error {
		return deploy(ctx, int64(l.Token())) // ctx ends before anybody else can have the lock
	})
	if err != nil {
		log.Fatal(err) // held by whom, or what went wrong
	}
}

func deploy(ctx context.Context, token int64) error { return ctx.Err() }
