package queue

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// errDisowned ends a session if the store does not know the worker's lease.
var errDisowned = fmt.Errorf("the worker's %w: the store says that it is not there", lease.ErrLost)

// A session is what a worker does under one lease. Tasks move from the fetcher through buffer to the slots, and
// their ends from there to the finishers.
//
// Invariants: a task is in held from before it can be worked until its end is passed to the finishers; every task
// that is worked is in held; and once the lease is lost nothing new begins.
type session struct {
	w     *Worker
	ref   lease.Ref
	lease *lease.Lease

	slots sync.WaitGroup
	work  context.Context // of all tasks; its cause is the loss, or the shutdown
	end   context.CancelCauseFunc
	// reporting ends when a shutdown no longer waits for the store: ends that it has not taken by then are given up.
	reporting context.Context
	giveUp    context.CancelFunc
	gaveUp    bool

	buffer chan *item
	ends   chan end
	wake   chan struct{}  // tells the fetcher that something changed
	late   sync.WaitGroup // sendings of ends that were put off
	bad    atomic.Int32   // how many of these the store did not take

	mu       sync.Mutex
	held     map[task.ID]*item
	ending   map[task.ID]bool // their ends are on the way to the store
	strays   strays           // what is in neither, although the store says that it is here
	crashers int              // how many of them are suspects that took a worker down before

	lonely atomic.Pointer[item] // a task that is worked alone: see alone

	// pace is the mean time at work of the last tasks, in ns. dry means that the store had fewer tasks than
	// requested, so that the next request waits for a sign.
	pace atomic.Int64
	dry  atomic.Bool
}

// item is one task of a session.
type item struct {
	driver.Fetched
	since time.Time // when it came
	try   bool      // it shows whether anything can be started here

	mu     sync.Mutex
	taken  bool   // by a slot, or by who hands it back
	stop   string // why it was asked to stop
	lost   bool   // the store does not know that it is this worker's
	cancel context.CancelCauseFunc

	completed atomic.Bool // in a transaction of its handler's: the store knows no more of it
}

func newSession(w *Worker, l *lease.Lease) *session {
	return &session{w: w, lease: l, ref: l.Ref(), held: map[task.ID]*item{}, ending: map[task.ID]bool{}, wake: make(chan struct{}, 1),
		buffer: make(chan *item, w.o.Slots+w.o.Prefetch), ends: make(chan end, 4*maxBatch)}
}

// join registers the worker in the store.
func (s *session) join(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	o := s.w.o
	if err := o.Store.Declare(ctx, o.Mux.rates()); err != nil {
		return fmt.Errorf("declare the rates of kinds: %w", err)
	}
	err := o.Store.Register(ctx, driver.Process{Lease: s.ref, Host: o.Holder.Host, PID: o.Holder.PID,
		Queues: o.Queues, Kinds: o.Mux.kinds(), Slots: o.Slots})
	if err != nil {
		return fmt.Errorf("join the workers: %w", err)
	}
	return nil
}

// run works until told ends, or until work ends because the lease is lost.
func (s *session) run(told, work context.Context) error {
	s.work, s.end = context.WithCancelCause(work)
	defer s.end(nil)
	s.reporting, s.giveUp = context.WithCancel(context.Background())
	defer s.giveUp()
	var finishers, others sync.WaitGroup
	for range s.w.o.Slots {
		s.slots.Go(s.slot)
	}
	for range 2 { // one gathers while the other one's call is under way
		finishers.Go(s.finish)
	}
	aside, stop := context.WithCancel(work)
	others.Go(func() { s.beat(aside) })
	others.Go(func() { s.maintain(aside) })

	fetching, stopFetching := context.WithCancel(work)
	patience := time.AfterFunc(math.MaxInt64, s.giveUp)
	defer patience.Stop()
	defer context.AfterFunc(told, func() {
		stopFetching()
		patience.Reset(s.w.o.Grace + s.w.o.StopGrace + s.w.o.Keeper.Margin().RPCTimeout/2)
	})()
	s.fetch(fetching) // until told, or lost
	stopFetching()

	disowned := context.Cause(s.work) == errDisowned
	if work.Err() == nil && !disowned {
		s.handBack(0)
	}
	close(s.buffer)
	err := s.await(&s.slots)
	stop()
	others.Wait() // they hand tasks back, too
	if err == nil {
		close(s.ends)
		defer time.AfterFunc(reportFor, s.giveUp).Stop()
		finishers.Wait()
		s.late.Wait()
		s.unreported()
	} else {
		go func() { s.slots.Wait(); close(s.ends) }() // so that a handler that ends after all leaves nothing behind
	}
	if err == nil && disowned {
		return errDisowned
	}
	return err
}

// reportFor is how long the ends of tasks may take to be reported once all slots have ended. A store that takes none
// (a table is locked, a disk is full) must not keep the process from ending.
const reportFor = 10 * time.Second

// unreported logs how many ends the store has not taken.
func (s *session) unreported() {
	s.mu.Lock()
	n := len(s.ending)
	s.mu.Unlock()
	if s.gaveUp = n > 0 && s.reporting.Err() != nil; s.gaveUp {
		s.w.log.Error("ends of tasks could not be reported, and the worker waits no longer; others will run these tasks again",
			"event", "tasks-unreported", "tasks", n)
	}
}

// await waits for the slots to end: by themselves within the grace, then by canceling their tasks.
func (s *session) await(slots *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { slots.Wait(); close(done) }()
	timer := time.NewTimer(s.w.o.Grace)
	defer timer.Stop()
	hurry := s.w.o.Hurry
	for told := false; ; told = true {
		select {
		case <-done:
			return nil
		case <-s.lease.Lost():
			<-done // the guard sees to it that somebody hears if this takes too long
			return nil
		case <-timer.C:
		case <-hurry:
		}
		if told {
			return fmt.Errorf("%w: %d of them, %s after the end of the grace", ErrStuck, s.count(), s.w.o.StopGrace)
		}
		s.end(ErrShutdown)
		hurry = nil // it has been heard
		timer.Reset(s.w.o.StopGrace)
	}
}

// overrun is called when tasks run for longer than a lost lease allows.
func (s *session) overrun() {
	if s.count() == 0 {
		return // a worker that idles has nothing to stop
	}
	s.w.log.Error("tasks did not stop after their worker lost its lease; only fencing tokens now prevent double work", "tasks", s.count())
	if s.w.o.OnOverrun == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.w.log.Error("OnOverrun panicked", "panic", textOf(p))
		}
	}()
	s.w.o.OnOverrun()
}

// leave releases the lease. Other workers rescue what could not be reported.
func (s *session) leave(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	most := s.w.o.Keeper.Margin().RPCTimeout
	if s.gaveUp { // it has waited for the store for long
		most /= 2
	}
	bound, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := s.w.o.Store.Deregister(bound, s.ref); err != nil {
		s.w.log.Warn("the store did not take the worker's end; its tasks are available again once its lease has ended", "error", err)
	}
	ctx, cancel = context.WithTimeout(ctx, most) // what locks the tasks need not lock the leases
	defer cancel()
	if err := s.lease.Release(ctx); err != nil {
		s.w.log.Warn("the worker's lease was not released; it will expire", "error", err)
	}
	return nil
}

// bound limits the duration of one call of the store.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.w.o.Keeper.Margin().RPCTimeout)
}

// count is how many tasks the session has.
func (s *session) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// hold adds tasks to the session.
func (s *session) hold(tasks []driver.Fetched) []*item {
	now := time.Now()
	items := make([]*item, len(tasks))
	var before []*item // of the same tasks, whose fetch was forgotten: here they are again
	defer func() {
		for _, it := range before {
			s.lose(it)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tasks {
		items[i] = &item{Fetched: tasks[i], since: now}
		if it := s.held[tasks[i].ID]; it != nil {
			before = append(before, it)
		}
		s.held[tasks[i].ID] = items[i]
		delete(s.strays.unknown, tasks[i].Ref)
		if tasks[i].Crashes > 0 {
			s.crashers++
		}
	}
	return items
}

// drop removes a task from the session, with its end on the way or with nothing to report. It wakes the fetcher when
// few tasks are left.
func (s *session) drop(it *item, ending bool) {
	s.mu.Lock()
	if s.held[it.ID] == it {
		delete(s.held, it.ID)
	}
	if ending {
		s.ending[it.ID] = true
	}
	if it.Crashes > 0 {
		s.crashers--
	}
	left := len(s.held)
	s.mu.Unlock()
	if s.lonely.Load() != nil || !s.dry.Load() && left <= s.low() {
		s.poke()
	}
}

// poke wakes the fetcher.
func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sign records that the store may have tasks again.
func (s *session) sign() {
	s.dry.Store(false)
	s.poke()
}
