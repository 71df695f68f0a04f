package main

import (
	"context"
	"io"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis9 "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/dibs-run/dibs/store/redis"
)

func redisCycles(ctx context.Context, w io.Writer, o options) error {
	url := addresses["redis"]
	client, err := redisClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	defer cleanRedis(client)
	keeper, closeKeeper, err := openKeeper(ctx, url, redis.OpenConfig)
	if err != nil {
		return err
	}
	defer closeKeeper()
	server := func() time.Duration { return redisTime(ctx, client) }
	return compare(ctx, w, o, "Redis: acquire and release", server, []library{
		{"dibs", dibs(keeper)},
		{"redislock", redislockCycle(client)},
		{"redsync", redsyncCycle(client)},
	})
}

// redisClient is the peers': with a connection for each goroutine, since they do not share round trips.
func redisClient(url string) (*goredis.Client, error) {
	opts, err := goredis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opts.PoolSize = 64
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return goredis.NewClient(opts), nil
}

func redislockCycle(client *goredis.Client) cycle {
	locks := redislock.New(client)
	return func(ctx context.Context, key string) error {
		l, err := locks.Obtain(ctx, namespace+":redislock:"+key, ttl, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func redsyncCycle(client *goredis.Client) cycle {
	locks := redsync.New(goredis9.NewPool(client))
	return func(ctx context.Context, key string) error {
		m := locks.NewMutex(namespace+":redsync:"+key, redsync.WithExpiry(ttl), redsync.WithTries(1))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		_, err := m.UnlockContext(ctx)
		return err
	}
}

// cleanRedis removes what this process left in the server.
func cleanRedis(client *goredis.Client) {
	ctx := context.Background()
	for _, pattern := range []string{"dibs:{" + namespace + "}:*", namespace + ":*"} {
		for keys := client.Scan(ctx, 0, pattern, 1000).Iterator(); keys.Next(ctx); {
			client.Unlink(ctx, keys.Val())
		}
	}
}
