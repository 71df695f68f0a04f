package queue

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// end is how the run of a task ended, on its way to the store.
type end struct {
	Completion
	queue, kind string
	next        bool // its end may let another one run
}

// report hands a task's end to the finishers.
func (s *shift) report(it *item, c Completion) {
	s.drop(it, true)
	s.ends <- end{c, it.Queue, it.Kind, it.Limit != nil || it.Suspect}
}

func tallied(c Completion) string {
	switch c.Verdict {
	case Success:
		return CountSucceeded
	case Fail:
		return CountFailed
	case Cancel:
		return CountCanceled
	case Drop:
		return CountDiscarded + ":" + c.Reason
	case Snooze:
		return CountPostponed
	case Return:
		return CountReturned
	}
	return CountRetried
}

// finish sends ends in batches: alone when there is one, together when there are many.
func (s *shift) finish() {
	for e := range s.ends {
		s.send(s.gather(e))
	}
}

// gather takes what is there, and lets whoever is about to report do so first.
func (s *shift) gather(first end) []end {
	batch := append(make([]end, 0, 64), first)
	for yielded := false; len(batch) < maxBatch; {
		select {
		case e, ok := <-s.ends:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			if yielded {
				return batch
			}
			yielded = true
			runtime.Gosched()
		}
	}
	return batch
}

// send repeats until the store has answered, or the lease is lost: then the tasks are rescued, and what is
// reported of them would be refused.
func (s *shift) send(batch []end) {
	ends := make([]Completion, len(batch))
	for i := range batch {
		ends[i] = batch[i].Completion
	}
	for pause := 50 * time.Millisecond; !s.lost(); pause = min(2*pause, time.Second) {
		ctx, cancel := s.bound(context.Background())
		st, err := s.w.o.Store.Finish(ctx, s.ref, ends)
		cancel()
		if err == nil {
			s.answered(batch, st)
			return
		}
		s.w.log.Warn("ends of tasks could not be reported; repeating", "tasks", len(batch), "error", err)
		if !errors.Is(err, ErrUnavailable) && len(batch) > 1 { // one of them may be at fault
			s.send(batch[:len(batch)/2])
			s.send(batch[len(batch)/2:])
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.lease.Lost():
			t.Stop()
		}
	}
}

// lost says whether the shift's lease is lost.
func (s *shift) lost() bool {
	select {
	case <-s.lease.Lost():
		return true
	default:
		return false
	}
}

// answered counts what the store has taken; nothing else has happened to those tasks.
func (s *shift) answered(batch []end, st []Status) {
	next := false
	s.mu.Lock()
	for i := range batch {
		delete(s.ending, batch[i].ID)
	}
	s.mu.Unlock()
	for i := range st {
		e := &batch[i]
		next = next || e.next
		name := tallied(e.Completion)
		if st[i] == Gone {
			s.w.log.Warn("the end of a task was refused: it is somebody else's by now", "task", e.ID, "token", e.Token)
			name = CountStale
		}
		if e.kind != "" { // else it never came to the shift
			s.w.tally.add(e.queue, e.kind, name)
		}
	}
	if next {
		s.sign() // its slot may have gone to the next one; and suspects are fetched one after the other
	}
}
