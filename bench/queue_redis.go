package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/redis"
	"github.com/dibs-run/dibs/task"
)

// redisQueues compares dibs with asynq, on one server with the settings that it has.
func redisQueues(ctx context.Context, w io.Writer, o options) error {
	client, err := redisClient(addresses["redis"])
	if err != nil {
		return err
	}
	defer client.Close()
	defer cleanRedis(client)
	defer func() { _ = cleanAsynq(context.Background(), client) }()
	persistence(ctx, w, client)
	s, k, err := openQueue(ctx, addresses["redis"], redis.OpenConfig)
	if err != nil {
		return err
	}
	defer func() { k.Close(); _ = s.Close() }()

	shops := []workshop{dibsShop(s, k, "dibs", "plain", 10, false), dibsShop(s, k, "dibs, unique", "unique", 10, true),
		asynqShop(client, "asynq, defaults", 0), asynqShop(client, "asynq, 16 at once", 16), asynqShop(client, "asynq, 64 at once", 64)}
	for i := range shops[:2] {
		shops[i].clear = func(ctx context.Context) error { return forgetEnded(ctx, s.Queue) }
	}
	for i := range shops {
		if i >= 2 {
			shops[i].tasks, shops[i].variant = o.tasks/5, i > 2
		}
		shops[i].used = func() time.Duration { return ownTime() + redisTime(ctx, client) }
	}
	return compareQueues(ctx, w, o, "Redis", shops)
}

// persistence says what the server keeps, since the figures are worth nothing without it.
func persistence(ctx context.Context, w io.Writer, client *goredis.Client) {
	aof, _ := client.ConfigGet(ctx, "appendonly").Result()
	fsync, _ := client.ConfigGet(ctx, "appendfsync").Result()
	fmt.Fprintf(w, "\nRedis with appendonly %s (%s)\n", aof["appendonly"], fsync["appendfsync"])
}

// redisTime is the processor time that the server has used.
func redisTime(ctx context.Context, client *goredis.Client) (sum time.Duration) {
	info := client.InfoMap(ctx, "cpu").Val()["CPU"]
	for _, k := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, _ := strconv.ParseFloat(info[k], 64)
		sum += time.Duration(s * float64(time.Second))
	}
	return sum
}

// forgetEnded deletes the tasks that succeeded, which would fill the server's memory.
func forgetEnded(ctx context.Context, q driver.Store) error {
	for {
		t, err := q.Maintain(ctx, driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0}})
		if err != nil || !t.More {
			return err
		}
	}
}
