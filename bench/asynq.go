package main

import (
	"context"
	"sync"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"
)

// asynqShop is asynq with so many tasks at once; 0 is its default, one for each processor. It knows no
// enqueuing in bulk.
func asynqShop(client *goredis.Client, name string, atOnce int) workshop {
	peer := asynq.NewClientFromRedisClient(client)
	task := asynq.NewTask("nothing", []byte(`{"n":4711}`))
	add := func(context.Context) error { _, err := peer.Enqueue(task); return err }
	return workshop{
		name: name,
		add:  add,
		fill: func(ctx context.Context, n int) error { return times(ctx, 64, n, add) },
		work: func(_ context.Context, done func()) (func(), error) {
			s := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: atOnce, LogLevel: asynq.FatalLevel})
			err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { done(); return nil }))
			return sync.OnceFunc(s.Shutdown), err
		},
		atLast: true,
		clear:  func(ctx context.Context) error { return cleanAsynq(ctx, client) },
	}
}

// cleanAsynq removes what asynq left in the server: its names have no prefix of ours.
func cleanAsynq(ctx context.Context, client *goredis.Client) error {
	var names []string
	for keys := client.Scan(ctx, 0, "asynq:*", 10_000).Iterator(); keys.Next(ctx); {
		names = append(names, keys.Val())
	}
	for from := 0; from < len(names); from += 10_000 {
		if err := client.Unlink(ctx, names[from:min(from+10_000, len(names))]...).Err(); err != nil {
			return err
		}
	}
	return nil
}
