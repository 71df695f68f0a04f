package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

// A worker is on record as long as it works: also after it lost its lease, and until it has drained and ended.
func TestAWorkerIsOnRecord(t *testing.T) {
	virtual(t, func(w *world) {
		is := func(when string, want fleet.State) fleet.Member {
			w.Helper()
			synctest.Wait()
			c, err := fleet.Read(w.Context(), w.st.Fleet, w.st.Leases)
			if err != nil || len(c.Members) != 1 || c.Members[0].State != want {
				w.Fatalf("%s: %+v, %v; want it %s", when, c.Members, err, want)
			}
			return c.Members[0]
		}
		var mux queue.Mux
		mux.Handle("k", queue.Handler{Do: func(ctx context.Context, _ *queue.Run) error {
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return nil
		}})
		wk := w.work(queue.WorkerOptions{Mux: &mux, Fleet: w.st.Fleet, Queues: []string{"a", "b"}, Slots: 3})
		time.Sleep(time.Second)
		m := is("it has started", fleet.Up)
		if m.Host != "host" || m.PID != 1 || m.App != "" || len(m.Queues) != 2 || m.Slots != 3 {
			w.Errorf("%+v", m)
		}
		if _, _, ok, err := wk.k.Break(w.Context(), m.Lease, lease.Broken{By: "test", Why: "a test", Now: true}); err != nil || !ok {
			w.Fatal(ok, err)
		}
		time.Sleep(wk.k.Margin().TTL)
		if again := is("it has another lease", fleet.Up); again.ID != m.ID || again.Lease == m.Lease {
			w.Errorf("%+v, and before %+v", again, m)
		}
		w.enqueue(task.Spec{Kind: "k", Queue: "a"})
		time.Sleep(2 * time.Second)
		wk.stop()
		time.Sleep(time.Second)
		is("it drains", fleet.Draining)
		w.end(wk)
		is("it has ended", fleet.Ended)
	})
}
