package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/store/redis"
)

// redisTasks compares queues on Redis: tasks that do nothing worked off, and single enqueues by 32 callers.
// Both keep to one server with the settings that it has, and to a number of tasks that is the same for all.
func redisTasks(ctx context.Context, w io.Writer, o options) error {
	client, err := redisClient(addresses["redis"])
	if err != nil {
		return err
	}
	defer client.Close()
	defer cleanRedis(client)
	defer func() { _ = cleanAsynq(client) }()
	persistence(ctx, w, client)
	ours, err := openQueue(ctx, addresses["redis"], redis.Open)
	if err != nil {
		return err
	}
	defer ours.close()
	if err := redisWorkOff(ctx, w, o, ours, client); err != nil {
		return err
	}
	return enqueueSingly(ctx, w, o, ours, client)
}

// persistence says what the server keeps, since the figures are worth nothing without it.
func persistence(ctx context.Context, w io.Writer, client *goredis.Client) {
	aof, _ := client.ConfigGet(ctx, "appendonly").Result()
	fsync, _ := client.ConfigGet(ctx, "appendfsync").Result()
	fmt.Fprintf(w, "\nRedis with appendonly %s (%s)\n", aof["appendonly"], fsync["appendfsync"])
}

func redisWorkOff(ctx context.Context, w io.Writer, o options, ours *tasksOfOurs, client *goredis.Client) error {
	c := newCosts(client)
	work := func() (int, time.Duration, error) {
		took, err := ours.workOff(ctx, o.tasks)
		return o.tasks, took, err
	}
	clear := func() error { return ours.clear(ctx) }
	plain, unique := func(int) string { return "" }, func(i int) string { return fmt.Sprintf("customer-%d", i) }
	contestants := []contestant{
		prepared(c.of("dibs", work), func() error { return ours.fill(ctx, o.tasks, plain) }, clear),
		prepared(c.of("dibs, unique keys", work), func() error { return ours.fill(ctx, o.tasks, unique) }, clear),
	}
	for _, at := range []int{0, 16, 64} {
		name, n := fmt.Sprintf("asynq, %d at once", at), o.tasks/5
		if at == 0 {
			name = "asynq, defaults"
		}
		contestants = append(contestants, prepared(c.of(name, func() (int, time.Duration, error) {
			took, err := asynqWorkOff(client, n, at)
			return n, took, err
		}), func() error { return asynqFill(client, n) }, func() error { return cleanAsynq(client) }))
	}
	t, err := play(o.rounds, contestants)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nRedis: tasks that do nothing, worked off (%d of them, for asynq a fifth; goal: 6 of asynq)\n", o.tasks)
	t.print(w, showRate)
	c.print(w)
	return nil
}

// prepared is a contestant whose turn is preceded and followed by what is not measured.
func prepared(c contestant, before, after func() error) contestant {
	return contestant{c.name, func() (float64, error) {
		if err := before(); err != nil {
			return 0, err
		}
		v, err := c.turn()
		return v, errors.Join(err, after())
	}}
}

func enqueueSingly(ctx context.Context, w io.Writer, o options, ours *tasksOfOurs, client *goredis.Client) error {
	c := newCosts(client)
	peer := asynq.NewClientFromRedisClient(client)
	task := asynq.NewTask("bench", []byte(`{"customer":4711}`))
	nothing := func() error { return nil }
	t, err := play(o.rounds, []contestant{
		prepared(c.of("dibs", func() (int, time.Duration, error) {
			return callers(32, o.turn, func() error { return ours.enqueue(ctx) })
		}), nothing, func() error { return ours.clear(ctx) }),
		prepared(c.of("asynq", func() (int, time.Duration, error) {
			return callers(32, o.turn, func() error { _, err := peer.Enqueue(task); return err })
		}), nothing, func() error { return cleanAsynq(client) }),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nRedis: single enqueues, 32 callers (goal: 1.5 of asynq)\n")
	t.print(w, showRate)
	c.print(w)
	return nil
}

// callers makes as many calls as n goroutines can in a time.
func callers(n int, d time.Duration, call func() error) (int, time.Duration, error) {
	began := time.Now()
	finish := began.Add(d)
	var done atomic.Int64
	_, err := inParallel(n, func() (bool, error) {
		if time.Now().After(finish) {
			return false, nil
		}
		done.Add(1)
		return true, call()
	})
	return int(done.Load()), time.Since(began), err
}

func asynqFill(client *goredis.Client, n int) error {
	peer := asynq.NewClientFromRedisClient(client)
	task := asynq.NewTask("bench", []byte(`{"customer":4711}`))
	var next atomic.Int64
	_, err := inParallel(64, func() (bool, error) {
		if next.Add(1) > int64(n) {
			return false, nil
		}
		_, err := peer.Enqueue(task)
		return true, err
	})
	return err
}

// asynqWorkOff measures how long a server of asynq's takes for n tasks that are there, from its start until the last one's
// handler; concurrency 0 is its default.
func asynqWorkOff(client *goredis.Client, n, concurrency int) (time.Duration, error) {
	var done atomic.Int64
	all := make(chan struct{})
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: concurrency, LogLevel: asynq.FatalLevel})
	began := time.Now()
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(n) {
			close(all)
		}
		return nil
	}))
	if err != nil {
		return 0, err
	}
	<-all
	took := time.Since(began)
	server.Shutdown()
	return took, nil
}

// inParallel has several goroutines make a call until it says that there is no more, or fails.
func inParallel(goroutines int, call func() (more bool, err error)) (time.Duration, error) {
	var (
		failed atomic.Value
		all    sync.WaitGroup
		began  = time.Now()
	)
	for range goroutines {
		all.Go(func() {
			for failed.Load() == nil {
				more, err := call()
				if err != nil {
					failed.Store(err)
				}
				if !more {
					return
				}
			}
		})
	}
	all.Wait()
	err, _ := failed.Load().(error)
	return time.Since(began), err
}

// cleanAsynq removes what asynq left in the server: its names have no prefix of ours.
func cleanAsynq(client *goredis.Client) error {
	ctx := context.Background()
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
