package queue

import (
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/brake"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// slot works tasks, one after the other, until the buffer is closed.
func (s *session) slot() {
	done := false
	defer func() {
		if !done { // a handler has ended this goroutine: another one goes on in its place
			s.slots.Go(s.slot)
		}
	}()
	for it := range s.buffer {
		if it.take() {
			s.perform(it)
		}
	}
	done = true
}

// take makes the caller the one that decides about a waiting task; it returns false if another goroutine already
// has.
func (it *item) take() bool {
	it.mu.Lock()
	defer it.mu.Unlock()
	was := it.taken
	it.taken = true
	return !was
}

// perform does one task and passes its end to the finishers.
func (s *session) perform(it *item) {
	if s.work.Err() != nil {
		s.release(it, "")
		return
	}
	if !it.try && s.w.brake.Left() > 0 { // it came before the pause, or was on its way
		s.release(it, "")
		return
	}
	now := s.now()
	if it.Damage != "" {
		s.w.log.Error("a task cannot be understood, and is discarded", "event", "task-damaged", "task", it.ID, "kind", it.Kind, "queue", it.Queue, "error", it.Damage)
		s.report(it, driver.Completion{Ref: it.Ref, Verdict: driver.Drop, Outcome: "discarded", Reason: task.ReasonDamaged, Started: now, Ended: now, Error: it.Damage})
		return
	}
	if c, late := overdue(&it.Fetched, now); late {
		s.report(it, c)
		return
	}
	if it.MustStart() && !s.started(it) {
		return
	}
	h, ok := s.w.o.Mux.handler(it.Kind)
	if !ok { // the store gave what was not asked for
		s.release(it, "no handler for kind "+it.Kind)
		return
	}
	n := it.Attempts - it.Granted + 1
	a := &attempt{ended: ended{task: &it.Fetched, attempt: n, handler: h, started: now},
		run: Run{Fetched: it.Fetched, Attempt: n, Lease: s.lease, it: it}}
	if s.w.o.Observe != nil {
		s.w.o.Observe(observe.Event{On: observe.Started, Of: observe.Task, Name: it.Kind, Queue: it.Queue, ID: strconv.FormatInt(int64(it.ID), 10),
			Attempt: n, Wait: it.waited(now)})
	}
	if s.w.o.Listen != nil {
		s.tell(Happening{On: TaskStarted, Started: now}, it, n)
	}
	s.begin(it, a)
	defer s.conclude(it, a) // also where the handler ends the goroutine
	s.do(it, a)
}

// waited is for how long a task that is due has waited by then.
func (it *item) waited(by time.Time) time.Duration { return max(by.Sub(it.RunAt), 0) }

// conclude decides what an attempt means for its task, and passes that to the finishers.
func (s *session) conclude(it *item, a *attempt) {
	a.returned()
	defer a.cancel(nil)
	s.paced(a.took)
	a.ended.ended = a.started.Add(a.took)
	it.mu.Lock()
	a.stop = it.stop
	it.mu.Unlock()
	s.w.tally.Took(it.Queue, it.Kind, counters.Wait, it.waited(a.started))
	s.w.tally.Took(it.Queue, it.Kind, counters.Work, a.took)
	if a.run.done && a.says.err == nil { // what holds if it was not committed: the finishers find that out
		a.says = opinion{err: ErrUncommitted, text: ErrUncommitted.Error()}
	}
	s.slowDown(a)
	c, ok := decide(a.ended)
	if !ok {
		s.drop(it, false)
		return
	}
	s.reportAttempt(it, a, c, a.run.done)
}

// slowDown learns from an attempt whether this process can start anything. If it cannot, tasks that wait for a slot go
// to other workers, and it fetches nothing for a while.
func (s *session) slowDown(a *attempt) {
	w := s.w
	switch {
	case !a.says.handled.notStarted():
		if w.brake.Started(a.taken) {
			w.log.Info("tasks can be started here again", "event", "starting-again")
			s.sign()
		}
	default:
		pause, first := w.brake.Fault(a.taken)
		if first {
			w.log.Error("tasks cannot be started here: they are handed back, and the worker tries again after growing pauses",
				"event", "cannot-start", "pause", pause, "most", brake.Longest, "error", a.says.text)
		}
		s.handBack(0)
	}
}

// started has the store record that the work begins. It returns false if that fails, and the task is given up or
// handed back.
func (s *session) started(it *item) bool {
	ctx, cancel := s.bound(s.work)
	defer cancel()
	st, err := s.w.o.Store.Start(ctx, s.ref, []driver.Ref{it.Ref})
	switch {
	case err != nil:
		s.w.log.Warn("the start of a task could not be recorded; it is handed back", "task", it.ID, "error", err)
		s.release(it, err.Error())
		return false
	case st[0] != driver.OK:
		s.w.tally.Add(it.Queue, it.Kind, counters.Stale)
		s.drop(it, false)
		return false
	}
	return true
}

// stopTask asks a task to stop; a task that waits for its slot ends at once.
func (s *session) stopTask(a driver.RunningTask) {
	s.mu.Lock()
	it := s.held[a.ID]
	s.mu.Unlock()
	if it == nil || it.Token != a.Token {
		return
	}
	it.mu.Lock()
	first := it.stop == ""
	it.stop = a.Stop
	cancel := it.cancel
	it.mu.Unlock()
	switch {
	case !first:
	case cancel != nil:
		cancel(ErrStopped)
	case it.take():
		s.report(it, driver.Completion{Ref: it.Ref, Verdict: driver.Cancel, Reason: a.Stop}) // it has not begun: no attempt
	}
}

// handBack returns tasks that have waited for a slot for at least d.
func (s *session) handBack(d time.Duration) {
	now := time.Now()
	s.mu.Lock()
	var old []*item
	for _, it := range s.held {
		if now.Sub(it.since) >= d && (d == 0 || it != s.lonely.Load()) {
			old = append(old, it)
		}
	}
	s.mu.Unlock()
	for _, it := range old {
		if it.take() {
			s.slow(d) // else it would be fetched again at once, and kept from others as before
			s.release(it, "")
		}
	}
}

// release hands a task back without an attempt. The task's history mentions it only if something went wrong.
func (s *session) release(it *item, why string) {
	c := driver.Completion{Ref: it.Ref, Verdict: driver.Return}
	if why != "" {
		now := s.now()
		c.Outcome, c.Started, c.Ended, c.Error = "returned", now, now, why
	}
	s.report(it, c)
}

// now is the store's time, as far as it is known without asking.
func (s *session) now() time.Time {
	if now, _, ok := s.w.o.Keeper.Estimate(); ok {
		return now
	}
	return time.Now().UTC()
}

// slow records that tasks take at least d, although no such task has ended yet.
func (s *session) slow(d time.Duration) {
	s.pace.Store(max(s.pace.Load(), int64(d)))
}

// paced records how long a task was at work.
func (s *session) paced(d time.Duration) {
	const weight = 16
	was := s.pace.Load()
	if was == 0 {
		was = int64(ahead) // be careful at first
	}
	s.pace.Store(max(was+(int64(d)-was)/weight, 1))
}
