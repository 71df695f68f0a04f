package queue

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
)

// end is how the run of a task ended, on its way to the store.
type end struct {
	driver.Completion
	queue, kind string
	next        bool // its end may let another one run
	// unsure means that a transaction of the handler may have completed the task. This end holds only if it has not.
	unsure  bool
	attempt int           // for the log; 0: no attempt has ended
	wait    time.Duration // for how long the task had waited when the attempt began; took is how long that took
	took    time.Duration
	told    *Happening // for listeners; nil: none is to hear of it
}

// report passes the end of a task to the finishers.
func (s *session) report(it *item, c driver.Completion) { s.hand(it, end{Completion: c}) }

func (s *session) hand(it *item, e end) {
	e.queue, e.kind, e.next = it.Queue, it.Kind, it.Limit != nil || it.Suspect
	if !e.unsure {
		s.logFailure(&e)
	}
	s.drop(it, true)
	s.ends <- e
}

// reportAttempt passes the end of an attempt to the finishers.
func (s *session) reportAttempt(it *item, a *attempt, c driver.Completion, unsure bool) {
	e := end{Completion: c, unsure: unsure, attempt: a.attempt, wait: it.waited(a.started), took: a.took}
	if s.w.o.Listen != nil {
		h := happeningOf(c)
		h.of(it, a.attempt)
		h.Err = a.says.err
		e.told = &h
	}
	s.hand(it, e)
}

func tallied(c driver.Completion) string {
	switch c.Verdict {
	case driver.Success:
		return counters.Succeeded
	case driver.Fail:
		return counters.Failed
	case driver.Cancel:
		return counters.Canceled
	case driver.Drop:
		return counters.Discarded + ":" + c.Reason
	case driver.Snooze:
		if c.Outcome == "returned" {
			return counters.Returned
		}
		return counters.Postponed
	case driver.Return:
		return counters.Returned
	}
	return counters.Retried
}

// finish sends ends in batches: a single one alone, many together.
func (s *session) finish() {
	for e := range s.ends {
		s.send(s.gather(e))
	}
}

// gather collects the pending ends, as many as one call may report, and first yields to goroutines that are about to
// report one.
func (s *session) gather(first end) []end {
	batch := append(make([]end, 0, 64), first)
	size := first.weight()
	for yielded := false; len(batch) < maxBatch && size < mostReported; {
		select {
		case e, ok := <-s.ends:
			if !ok {
				return batch
			}
			batch, size = append(batch, e), size+e.weight()
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

// send repeats until the store has answered, the lease is lost or the shutdown is over. After a loss the tasks are
// rescued, and reports about them would be refused. After a silence it sends the halves of a batch separately: all of
// it may be more than the link carries in time.
func (s *session) send(batch []end) {
	if batch = s.uncommitted(batch); len(batch) == 0 {
		return
	}
	ends := make([]driver.Completion, len(batch))
	for i := range batch {
		ends[i] = batch[i].Completion
	}
	for pause := 50 * time.Millisecond; !s.lost(); pause = min(2*pause, time.Second) {
		ctx, cancel := s.bound(s.reporting)
		st, err := s.w.o.Store.Finish(ctx, s.ref, ends)
		cancel()
		if err == nil {
			s.answered(s.putOff(batch, st))
			return
		}
		s.w.log.Warn("ends of tasks could not be reported; repeating", "tasks", len(batch), "error", err)
		if !errors.Is(err, ErrUnavailable) && s.part(batch) { // one of them may be at fault
			return
		}
		s.rest(pause)
		if n := len(batch); n > 1 && errors.Is(err, ErrUnavailable) {
			s.send(batch[:n/2])
			s.send(batch[n/2:])
			return
		}
	}
}

// part sends the halves of a batch separately. A single end that is still not accepted is tried again beside the
// others. part returns false if too many already are: then the store is at fault, and the slots must notice.
func (s *session) part(batch []end) bool {
	if n := len(batch); n > 1 {
		s.send(batch[:n/2])
		s.send(batch[n/2:])
		return true
	}
	if s.bad.Add(1) > maxBad {
		s.bad.Add(-1)
		return false
	}
	s.late.Go(func() {
		s.rest(time.Second)
		s.bad.Add(-1)
		s.send(batch)
	})
	return true
}

// maxBad is how many ends that the store does not accept are tried again beside the others.
const maxBad = 16

// rest waits, but not beyond the loss of the lease.
func (s *session) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.lease.Lost():
	case <-s.reporting.Done():
	}
}

// uncommitted returns batch without the ends that their handlers' transactions have already written. The store knows
// which: those tasks no longer run. One read answers for all of them.
func (s *session) uncommitted(batch []end) []end {
	if !slices.ContainsFunc(batch, func(e end) bool { return e.unsure }) {
		return batch
	}
	for pause := 50 * time.Millisecond; !s.lost(); pause = min(2*pause, time.Second) {
		ctx, cancel := s.bound(s.reporting)
		mine, err := s.w.o.Store.Running(ctx, s.ref, false)
		cancel()
		if err == nil {
			return s.settled(batch, mine)
		}
		s.w.log.Warn("could not check whether tasks were completed; repeating", "tasks", len(batch), "error", err)
		s.rest(pause)
	}
	return nil
}

// settled counts what handlers completed themselves, and returns the ends that are left to report. mine is still
// running.
func (s *session) settled(batch []end, mine []driver.RunningTask) (left []end) {
	runs := make(map[driver.Ref]bool, len(mine))
	for _, m := range mine {
		runs[m.Ref] = true
	}
	for i := range batch {
		e := &batch[i]
		switch {
		case !e.unsure:
			left = append(left, *e)
		case runs[e.Ref] && e.forgot():
			e.unsure = false
			s.w.log.Error("a handler completed its task in a transaction that was not committed when it returned; the attempt has failed",
				"event", "task-uncommitted", "kind", e.kind, "queue", e.queue, "task", e.ID)
			left = append(left, *e)
		case runs[e.Ref]: // it rolled back, and said why
			e.unsure = false
			s.logFailure(e)
			left = append(left, *e)
		default:
			s.completed(e)
		}
	}
	return left
}

// forgot reports whether the handler returned nil although its transaction may not have been committed.
func (e *end) forgot() bool { return e.Error == ErrUncommitted.Error() }

// completed records that the handler's transaction has completed its task.
func (s *session) completed(e *end) {
	if !e.forgot() {
		s.w.log.Warn("a task is done, because its handler committed that; the handler failed after it",
			"event", "task-completed", "kind", e.kind, "queue", e.queue, "task", e.ID, "attempt", e.attempt, "error", e.Error)
	}
	s.mu.Lock()
	delete(s.ending, e.ID)
	s.mu.Unlock()
	s.w.tally.Add(e.queue, e.kind, counters.Succeeded)
	s.observe(e, counters.Succeeded)
	if e.told != nil {
		e.told.On, e.told.Outcome, e.told.Error, e.told.Err = TaskSucceeded, "succeeded", "", nil
		e.told.Reason, e.told.Again = "", 0
		s.w.told.tell(*e.told)
	}
	if e.next {
		s.sign()
	}
}

// lost reports whether nothing more is reported: the session's lease is lost, or its shutdown is over.
func (s *session) lost() bool {
	select {
	case <-s.lease.Lost():
		return true
	case <-s.reporting.Done():
		return true
	default:
		return false
	}
}

// answered counts the ends that the store has accepted; nothing else has happened to those tasks.
func (s *session) answered(batch []end, st []driver.Status) {
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
		if st[i] == driver.Gone {
			s.w.log.Warn("the end of a task was refused, because another worker has the task", "task", e.ID, "token", e.Token)
			name = counters.Stale
		} else {
			s.observe(e, name)
			if e.told != nil {
				s.w.told.tell(*e.told)
			}
		}
		if e.kind != "" { // else it never came to the session
			s.w.tally.Add(e.queue, e.kind, name)
		}
	}
	if next {
		s.sign() // its slot may have gone to the next one; and suspects are fetched one after the other
	}
}
