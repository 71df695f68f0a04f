package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A server that was stopped carries out the requests of workers that died meanwhile: what it is asked to give is not
// given past not_after (rule L1), and what it is told is refused once the lease has lapsed.
// Holds: L1.
func TestBufferedRequestsOfDeadWorkers(t *testing.T) {
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	ids := enqueue(t, s, task.Spec{Queue: "q", Kind: "k"}, task.Spec{Queue: "q", Kind: "k"})
	dying := open(t, c)
	w := joined(t, dying, 3*time.Second)
	fetch := driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 1}
	f, err := dying.Queue.Fetch(t.Context(), fetch)
	if err != nil || len(f.Tasks) != 1 {
		t.Fatalf("fetch: %+v, %v", f, err)
	}
	end := []driver.Completion{{Ref: f.Tasks[0].Ref, Verdict: driver.Success}}
	// The server knows the scripts, and there are connections for all.
	var ready sync.WaitGroup
	for range 4 {
		ready.Go(func() {
			_, _ = dying.Queue.Finish(t.Context(), w, []driver.Completion{{Ref: driver.Ref{ID: 999}, Verdict: driver.Success}})
			_, _ = dying.Queue.Start(t.Context(), w, []driver.Ref{{ID: 999}})
		})
	}
	ready.Wait()

	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	late := fetch
	late.NotAfter = time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	for what, send := range map[string]func() error{
		"fetch":  func() error { _, err := dying.Queue.Fetch(ctx, late); return err },
		"finish": func() error { _, err := dying.Queue.Finish(ctx, w, end); return err },
		"start":  func() error { _, err := dying.Queue.Start(ctx, w, []driver.Ref{f.Tasks[0].Ref}); return err },
		"control": func() error {
			_, err := dying.Queue.Enqueue(ctx, []task.Spec{{Queue: "q", Kind: "k", Args: []byte("null")}})
			return err
		},
	} {
		wg.Go(func() {
			if err := send(); err == nil {
				t.Errorf("%s was answered by a stopped server", what)
			}
		})
	}
	wg.Wait()
	_ = dying.Close()
	time.Sleep(time.Until(f.Now.Add(3*time.Second + 100*time.Millisecond))) // the lease's end; the server's clock is ours
	server.Cont()

	waitFor(t, "the control request, which nothing bounds", func() bool {
		_, _, ok, err := s.Tasks.Task(t.Context(), ids[1].ID+1)
		return err == nil && ok
	})
	for i, want := range []task.State{task.Running, task.Available} {
		x, _, _, err := s.Tasks.Task(t.Context(), ids[i].ID)
		if err != nil || x.State != want {
			t.Errorf("task %d: %s, %v; want %s", ids[i].ID, x.State, err, want)
		}
	}
	if done, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{}); err != nil || done.Rescued != 1 {
		t.Errorf("maintain: %+v, %v", done, err)
	}
}
