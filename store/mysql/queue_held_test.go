package mysql

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A server that takes over between a fetch's look and its gift gives no slot: the two may go to different servers.
// Holds: Q5.
func TestAServerThatTakesOverWithinAFetchGivesNoSlot(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	db := raw(t, address, nil)
	s := mustOpen(t, c)
	w := joined(t, s)
	enqueue(t, s.Queue, spec(limitOf("l", 1)))
	q := s.Queue.(queues)
	m, err := q.member(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	var f *fetch
	looks := 0
	err = q.step(t.Context(), func(b *txn) error {
		f = &fetch{txn: b, r: driver.FetchRequest{Worker: w, Max: 10, Queues: []string{"q"}}, id: m.id, busy: map[task.Hash]bool{}, passed: map[task.ID]bool{}}
		if done, err := f.look(); err != nil || done {
			return err
		}
		if looks++; looks == 1 {
			exec(t, db, "UPDATE dibs_meta SET identity = 'another' WHERE ns = ?", []byte(c.Namespace))
		}
		return f.giveAll()
	})
	if err != nil || len(f.granted) > 0 || looks < 2 {
		t.Errorf("after %d looks: %+v, %v", looks, f.granted, err)
	}
}

// Rule Q5: the work of a task whose fetch a failover forgot has ended before its slot is given again.
// Holds: Q5.
func TestAForgottenSlotIsGivenAfterItsWork(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	db := raw(t, address, nil)
	s := mustOpen(t, c)
	ended := make(chan error, 1)
	mux := new(queue.Mux)
	mux.Handle("k", queue.Handler{Do: func(ctx context.Context, _ *queue.Run) error {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	}})
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: s.Queue, Keeper: k, Mux: mux, Queues: []string{"q"}, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	id := enqueue(t, s.Queue, spec(limitOf("l", 1)))[0].ID
	eventually(t, "it runs", func() bool { return taskOf(t, s, id).State == task.Running })
	// The server that took over knows the worker's lease, and not what it was given last.
	exec(t, db, "UPDATE dibs_meta SET identity = 'another' WHERE ns = ?", []byte(c.Namespace))
	exec(t, db, "UPDATE dibs_tasks SET state = 1, worker = 0, holder = 0, token = 0, started = 0, begun = 0, ver = ver + 1 WHERE ns = ?", []byte(c.Namespace))
	if err := <-ended; !errors.Is(err, lease.ErrLost) {
		t.Errorf("it ended with %v", err)
	}
	if x := taskOf(t, s, id); x.State != task.Available {
		t.Errorf("by then its task is %s", x.State)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func taskOf(t *testing.T, s *store.Store, id task.ID) driver.Task {
	t.Helper()
	x, _, there, err := s.Tasks.Task(t.Context(), id)
	if err != nil || !there {
		t.Fatal(there, err)
	}
	return x
}
