package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// However many calls of the queue wait for a transaction of somebody's, the leases find a connection at once.
func TestRenewalsDoNotWaitForTheQueue(t *testing.T) {
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec(uniqueKey("there")))[0].ID
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs := QueueTx(tx, c.Namespace)
	enqueue(t, theirs, spec(uniqueKey("u")), spec(uniqueKey("there")))
	done := make(chan struct{})
	var waiting sync.WaitGroup
	for i := range 12 {
		waiting.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				var err error
				if n%2 == 0 {
					_, err = s.Queue.Enqueue(t.Context(), []task.Spec{spec(uniqueKey("u"))})
				} else {
					_, err = s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, By: "t"})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), lockWait/2)
		r, err := s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: w, TTL: time.Minute}})
		cancel()
		if err != nil || r.Answers[0].Status != lease.OK {
			t.Errorf("a renewal: %+v, %v", r, err)
			break
		}
		time.Sleep(50 * time.Millisecond) // it takes a while until all of them wait
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	close(done)
	waiting.Wait()
}
