package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A server that was stopped carries out the requests of workers that died meanwhile: what it is asked to give is not
// given past not_after (rule L1), and what it is told is refused once the lease has lapsed.
// Holds: L1.
func TestBufferedRequestsOfDeadWorkers(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	c := config(t, server.URL)
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	ids := enqueue(t, s, task.Spec{Queue: "q", Kind: "k"}, task.Spec{Queue: "q", Kind: "k"})
	live, w := joined(t, s, time.Hour), joined(t, s, time.Hour)
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 1})
	if err != nil || len(f.Tasks) != 1 {
		t.Fatalf("fetch: %+v, %v", f, err)
	}
	ref := f.Tasks[0].Ref
	end := []driver.Completion{{Ref: ref, Verdict: driver.Success}}
	// The server knows the scripts.
	_, err1 := s.Queue.Finish(t.Context(), w, []driver.Completion{{Ref: driver.Ref{ID: 999}, Verdict: driver.Success}})
	_, err2 := s.Queue.Start(t.Context(), w, []driver.Ref{{ID: 999}})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	dying := opensToDie(t, c)
	dying.connect(t, 4)
	renewFor(t, s, w, 100*time.Millisecond)
	lapses := read(t, s, w.Key).Record.Expires

	server.Stop()
	dying.send(t, map[string]func(*store.Store) error{
		"fetch": func(s *store.Store) error { // by a worker whose lease goes on
			_, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: live, Queues: []string{"q"}, Max: 1, NotAfter: lapses})
			return err
		},
		"finish": func(s *store.Store) error { _, err := s.Queue.Finish(t.Context(), w, end); return err },
		"start":  func(s *store.Store) error { _, err := s.Queue.Start(t.Context(), w, []driver.Ref{ref}); return err },
		"control": func(s *store.Store) error {
			_, err := s.Queue.Enqueue(t.Context(), []task.Spec{{Queue: "q", Kind: "k", Args: []byte("null")}})
			return err
		},
	})
	isPast(lapses)
	server.Cont()

	dying.isBuried(t)
	if _, _, ok, err := s.Tasks.Task(t.Context(), ids[1].ID+1); err != nil || !ok {
		t.Errorf("the control request, which nothing bounds, was not carried out: %v", err)
	}
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
