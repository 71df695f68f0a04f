package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// nothing is a job of River that does nothing.
type nothing struct {
	N int64 `json:"n"`
}

func (nothing) Kind() string { return "nothing" }

type nothingWorker struct {
	river.WorkerDefaults[nothing]
	done func()
}

func (w *nothingWorker) Work(context.Context, *river.Job[nothing]) error {
	w.done()
	return nil
}

// riverSchema is this process's own.
func riverSchema() string { return strings.ReplaceAll(namespace, "-", "_") + "_river" }

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+riverSchema()); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: riverSchema(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverShop is River with some settings, in a queue of its own. How many workers a queue has is the one thing
// that it has no default for; with 1,000 its default pace, a fetch in 100 ms, allows 10,000 jobs per second.
func riverShop(pool *pgxpool.Pool, name, in string, set func(*river.Config)) (workshop, error) {
	driver := riverpgxv5.New(pool)
	config := func(done func()) *river.Config {
		c := &river.Config{Schema: riverSchema(), Logger: slog.New(slog.DiscardHandler),
			Queues: map[string]river.QueueConfig{in: {MaxWorkers: 1000}}, Workers: river.NewWorkers()}
		river.AddWorker(c.Workers, &nothingWorker{done: done})
		set(c)
		return c
	}
	client, err := river.NewClient(driver, config(func() {}))
	if err != nil {
		return workshop{}, err
	}
	opts := &river.InsertOpts{Queue: in}
	return workshop{
		name: name,
		add: func(ctx context.Context) error {
			_, err := client.Insert(ctx, nothing{1}, opts)
			return err
		},
		bulk: true,
		fill: func(ctx context.Context, n int) error {
			for ; n > 0; n -= bulkTasks {
				params := make([]river.InsertManyParams, min(n, bulkTasks))
				for i := range params {
					params[i] = river.InsertManyParams{Args: nothing{int64(i)}, InsertOpts: opts}
				}
				if _, err := client.InsertManyFast(ctx, params); err != nil {
					return err
				}
			}
			return nil
		},
		work: func(ctx context.Context, done func()) (func(), error) {
			c, err := river.NewClient[pgx.Tx](driver, config(done))
			if err != nil {
				return nil, err
			}
			if err := c.Start(ctx); err != nil {
				return nil, err
			}
			return sync.OnceFunc(func() { _ = c.Stop(context.WithoutCancel(ctx)) }), nil
		},
	}, nil
}

// riverAtItsBest is what its own benchmark sets, and what was found to help here.
func riverAtItsBest(c *river.Config) {
	c.FetchCooldown, c.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	c.JobTimeout = -1
	for name := range c.Queues {
		c.Queues[name] = river.QueueConfig{MaxWorkers: 2000}
	}
}
