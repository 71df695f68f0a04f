package main

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
)

// openQueue opens a store in a namespace of this process's own.
func openQueue(ctx context.Context, url string, open func(context.Context, store.Config) (*store.Store, error)) (*store.Store, *lease.Keeper, error) {
	c, err := store.Parse(url)
	if err != nil {
		return nil, nil, err
	}
	c.Namespace, c.Init = namespace, true
	s, err := open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify, Margin: lease.MarginFor(ttl)})
	if err != nil {
		_ = s.Close()
	}
	return s, k, err
}

// dibsShop is the library's Client and Worker over a store. With unique, each task has a unique key.
func dibsShop(s *store.Store, k *lease.Keeper, name, in string, slots int, unique bool) workshop {
	client := queue.NewClient(queue.ClientOptions{Store: s.Queue})
	var n atomic.Int64
	spec := func() queue.Spec {
		i := n.Add(1)
		t := queue.Spec{Queue: in, Kind: "nothing", Args: json.RawMessage(`{"n":` + strconv.FormatInt(i, 10) + `}`)}
		if unique {
			t.Unique = &queue.Unique{Key: in + strconv.FormatInt(i, 10)}
		}
		return t
	}
	return workshop{
		name: name,
		add: func(ctx context.Context) error {
			_, err := client.Enqueue(ctx, spec())
			return err
		},
		bulk: true,
		fill: func(ctx context.Context, n int) error {
			specs := make([]queue.Spec, n)
			for i := range specs {
				specs[i] = spec()
			}
			_, err := client.EnqueueMany(ctx, specs)
			return err
		},
		work: func(ctx context.Context, done func()) (func(), error) {
			var m queue.Mux
			m.Handle("nothing", queue.Handler{Do: func(context.Context, *queue.Run) error {
				done()
				return nil
			}})
			w, err := queue.NewWorker(queue.WorkerOptions{Store: s.Queue, Keeper: k, Mux: &m, Queues: []string{in}, Slots: slots, Holder: holder()})
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			return sync.OnceFunc(func() { cancel(); <-ended }), nil
		},
	}
}
