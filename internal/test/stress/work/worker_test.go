//go:build linux

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/task"
)

// ttl is short, so that the tasks of a killed worker are soon available; the margin shrinks with it.
const ttl = 4 * time.Second

// A part is what a worker process is told to do.
type part struct{ Ledger, Store string }

// args are a task's.
type args struct {
	N   int `json:"n"`
	Key int `json:"key"` // of its limit, from 1; 0: none
}

// runWorker is the main function of a worker process.
func runWorker(told string) error {
	go func() { // the test's end is ours, however it ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var p part
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		return err
	}
	l, err := openLedger(p.Ledger)
	if err != nil {
		return err
	}
	s, err := open(context.Background(), p.Store, false)
	if err != nil {
		return err
	}
	keeper, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify, Margin: lease.MarginFor(ttl)})
	if err != nil {
		return err
	}
	mux := &queue.Mux{}
	queue.Define[args]("effect").Handle(mux, func(_ context.Context, r *queue.Run, a args) error {
		if a.Key > 0 {
			defer l.enter(a.Key - 1)()
		}
		l.apply(a.N, r.Token)
		return nil
	}, queue.Handler{})
	w, err := queue.NewWorker(queue.WorkerOptions{Store: watched{s.Queue, l}, Keeper: keeper, Mux: mux, Slots: 50,
		Holder: lease.Holder{Host: "stress", PID: os.Getpid()}})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return w.Run(ctx)
}

// open opens a store, which may just be away.
func open(ctx context.Context, address string, init bool) (*store.Store, error) {
	c, err := store.Parse(address)
	if err != nil {
		return nil, err
	}
	c.Init = init
	for {
		bound, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := all.OpenConfig(bound, c)
		cancel()
		if !errors.Is(err, lease.ErrUnavailable) || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// watched notes what the store took.
type watched struct {
	driver.Store
	l *ledger
}

// numbers of the tasks, by id: what was fetched is what is finished.
var numbers = make(chan map[task.ID]int, 1)

func init() { numbers <- map[task.ID]int{} }

func (w watched) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	f, err := w.Store.Fetch(ctx, r)
	known := <-numbers
	for _, t := range f.Tasks {
		var a args
		if json.Unmarshal(t.Args, &a) == nil {
			known[t.ID] = a.N
		}
	}
	numbers <- known
	return f, err
}

func (w watched) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	st, err := w.Store.Finish(ctx, worker, ends)
	if err != nil {
		return st, err
	}
	known := <-numbers
	for i, c := range ends {
		switch {
		case st[i] != driver.OK:
			w.l.stale.Add(1)
		case c.Verdict == driver.Success:
			w.l.complete(known[c.ID], c.Token)
		}
	}
	numbers <- known
	return st, err
}

func key(i int) *task.Limit {
	return &task.Limit{Key: fmt.Sprintf("key-%d", i)}
}
