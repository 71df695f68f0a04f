package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := redislock.New(redis.NewClient(o)).Obtain(ctx, "deploy", 15*time.Second, nil)
	if err != nil {
		log.Fatal(err) // held, or what went wrong
	}
	defer lock.Release(context.Background())
	go func() { // the lock is not renewed by itself, and nobody tells the work that it was lost
		for range time.Tick(5 * time.Second) {
			if err := lock.Refresh(ctx, 15*time.Second, nil); err != nil {
				cancel()
			}
		}
	}()
	if err := deploy(ctx); err != nil {
		log.Print(err)
	}
}

func deploy(ctx context.Context) error { return ctx.Err() }
