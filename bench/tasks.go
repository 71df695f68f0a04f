package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
)

// tasksOfOurs is a queue of dibs in a namespace of this process's own, with the Client and the Worker that a program has.
type tasksOfOurs struct {
	s      *store.Store
	keeper *lease.Keeper
	client *queue.Client
	slots  int
	close  func()
}

func openQueue(ctx context.Context, url string, open func(context.Context, store.Config) (*store.Store, error)) (*tasksOfOurs, error) {
	c, err := store.Parse(url)
	if err != nil {
		return nil, err
	}
	c.Namespace, c.Init = namespace, true
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify, Margin: lease.MarginFor(ttl)})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	q := &tasksOfOurs{s: s, keeper: k, client: queue.NewClient(queue.ClientOptions{Store: s.Queue}), slots: 10}
	q.close = func() { q.client.Close(); k.Close(); _ = s.Close() }
	return q, nil
}

// spec is a task of the benchmark; the key is unique where it is not empty.
func spec(key string) queue.Spec {
	s := queue.Spec{Kind: "bench", Args: json.RawMessage(`{"customer":4711}`)}
	if key != "" {
		s.Unique = &queue.Unique{Key: key}
	}
	return s
}

func (q *tasksOfOurs) enqueue(ctx context.Context) error {
	_, err := q.client.Enqueue(ctx, spec(""))
	return err
}

// fill enqueues n tasks, with unique keys where key says one.
func (q *tasksOfOurs) fill(ctx context.Context, n int, key func(int) string) error {
	specs := make([]queue.Spec, n)
	for i := range specs {
		specs[i] = spec(key(i))
	}
	_, err := q.client.EnqueueMany(ctx, specs)
	return err
}

// workOff measures how long a Worker takes for n tasks that are there, from its start until it has reported them all and
// ended.
func (q *tasksOfOurs) workOff(ctx context.Context, n int) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	var mux queue.Mux
	mux.Handle("bench", queue.Handler{Do: func(context.Context, *queue.Run) error {
		if done.Add(1) == int64(n) {
			stop()
		}
		return nil
	}})
	w, err := queue.NewWorker(queue.WorkerOptions{Store: q.s.Queue, Keeper: q.keeper, Mux: &mux, Slots: q.slots, Holder: holder()})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := w.Run(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if int(done.Load()) != n {
		return 0, fmt.Errorf("%d tasks of %d were worked off", done.Load(), n)
	}
	return took, nil
}

// clear deletes all tasks, those that wait as well.
func (q *tasksOfOurs) clear(ctx context.Context) error {
	for after := queue.ID(0); ; {
		waiting, err := q.s.Tasks.Tasks(ctx, queue.Filter{States: []queue.State{queue.Available}, After: after, Max: 1000})
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			break
		}
		ids := make([]queue.ID, len(waiting))
		for i, t := range waiting {
			ids[i], after = t.ID, t.ID
		}
		if _, err := q.s.Tasks.Act(ctx, queue.Action{Act: queue.ActDiscard, IDs: ids, By: "bench"}); err != nil {
			return err
		}
	}
	for {
		r, err := q.s.Queue.Tend(ctx, queue.TendRequest{Keep: map[queue.State]time.Duration{queue.Succeeded: 0, queue.Discarded: 0}})
		if err != nil || !r.More {
			return err
		}
	}
}
