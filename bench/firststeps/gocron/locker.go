package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
)

// locker does what github.com/go-co-op/gocron-redis-lock does for a program; its lines do not count as the
// program's own.
type locker struct{ *redislock.Client }

func newLocker(c *redis.Client) gocron.Locker { return locker{redislock.New(c)} }

func (l locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	got, err := l.Obtain(ctx, "gocron:"+key, 8*time.Second, nil)
	if err != nil {
		return nil, err
	}
	return held{got}, nil
}

type held struct{ *redislock.Lock }

func (h held) Unlock(ctx context.Context) error { return h.Release(ctx) }
