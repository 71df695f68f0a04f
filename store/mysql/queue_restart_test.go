package mysql

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A server that dies in the middle of batches has them whole or not at all: what was acknowledged is there, each
// completion stands, and nothing is left locked or half done.
func TestAServerRestartedInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	srv := testserver.StartMariaDB(t)
	c := queueConfig(t, srv.URL)
	s := mustOpen(t, c)
	w := joined(t, s)
	const size = 20
	var mu sync.Mutex
	sure, done := map[task.ID]bool{}, map[task.ID]bool{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	unlessDown := func(err error) bool {
		if err != nil && !errors.Is(err, lease.ErrUnavailable) {
			t.Error(err)
		}
		return err == nil
	}
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	wg.Go(func() {
		for !over() {
			var specs []task.Spec
			for i := range size {
				if i%2 == 0 {
					specs = append(specs, spec(limitOf("l", 10)))
				} else {
					specs = append(specs, spec())
				}
			}
			got, err := s.Queue.Enqueue(within(t, 5*time.Second), specs)
			mu.Lock()
			for _, e := range got {
				if err == nil {
					sure[e.ID] = true
				}
			}
			mu.Unlock()
		}
	})
	wg.Go(func() {
		for !over() {
			f, err := s.Queue.Fetch(within(t, 5*time.Second), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
			if !unlessDown(err) || len(f.Tasks) == 0 {
				continue
			}
			var ends []driver.Completion
			for _, x := range f.Tasks {
				ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: driver.Success})
			}
			got, err := s.Queue.Finish(within(t, 5*time.Second), w, ends)
			if !unlessDown(err) {
				continue
			}
			mu.Lock()
			for i, a := range got {
				if done[ends[i].ID] || a != driver.OK {
					t.Errorf("task %d: %v, done before: %v", ends[i].ID, a, done[ends[i].ID])
				}
				done[ends[i].ID] = true
			}
			mu.Unlock()
		}
	})
	for range 2 {
		time.Sleep(700 * time.Millisecond) // work goes on; nothing depends on how much
		srv.Kill()
		srv.Restart()
	}
	close(stop)
	wg.Wait()

	byBatch, succeeded := 0, map[task.ID]bool{}
	there := map[task.ID]task.State{}
	for after := task.ID(0); ; {
		all, err := s.Tasks.Tasks(t.Context(), driver.Filter{After: after, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range all {
			there[x.ID], after = x.State, x.ID
			succeeded[x.ID] = x.State == task.Succeeded
			byBatch++
		}
		if len(all) < 1000 {
			break
		}
	}
	if byBatch%size != 0 {
		t.Errorf("%d tasks: a batch of %d was taken in by half", byBatch, size)
	}
	if len(sure) == 0 || len(done) == 0 {
		t.Errorf("%d were taken in, %d done: nothing was seen", len(sure), len(done))
	}
	for id := range sure {
		if there[id] == "" {
			t.Errorf("task %d was acknowledged, and is not there", id)
		}
	}
	for id := range done {
		if !succeeded[id] {
			t.Errorf("task %d was completed, and is %s", id, there[id])
		}
	}
	// What the dead server's answers did not tell is the worker's still, and can be ended.
	mine, err := s.Queue.Running(t.Context(), w, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range mine {
		complete(t, s.Queue, w, driver.Fetched{Ref: a.Ref})
	}
	if _, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{}); err != nil {
		t.Fatal(err)
	}
	for {
		f := fetchSome(t, s, w, 100)
		if len(f.Tasks) == 0 {
			break
		}
		complete(t, s.Queue, w, f.Tasks...)
	}
	subs, err := s.Tasks.Queues(t.Context())
	if err != nil || len(subs) != 1 || subs[0].Depth[task.Succeeded] != byBatch {
		t.Errorf("in the end: %+v, %v, want %d succeeded", subs, err, byBatch)
	}
}
