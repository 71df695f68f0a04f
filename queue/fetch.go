package queue

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

const (
	// ahead is how long waiting tasks may take to get a slot. The shorter the tasks, the more are fetched ahead, so
	// that slots are never idle during a round trip.
	ahead = 25 * time.Millisecond
	// stale is how long a task waits for a slot before it is handed back, so that another worker can get it.
	stale = time.Second
)

// capacity is how many tasks the session wants to have: one per slot, and as many more as its slots finish within
// ahead.
func (s *session) capacity() int {
	o := s.w.o
	pace := s.pace.Load()
	if pace <= 0 {
		return o.Slots // nothing is known yet
	}
	return o.Slots + min(o.Prefetch, int(int64(o.Slots)*int64(ahead)/pace))
}

// low is the number of tasks at which more are fetched.
func (s *session) low() int {
	c := s.capacity()
	if c == s.w.o.Slots {
		return c - 1 // long tasks: each free slot is worth a request
	}
	return max(c/2, min(s.w.o.Slots, c-1))
}

// fetch asks for tasks until ctx ends, whenever slots are free and the store may have some.
func (s *session) fetch(ctx context.Context) {
	signs, poll := s.watch(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	some := newAppetite()
	for turn := 0; ctx.Err() == nil; turn++ {
		next := poll
		room, rest, try := min(s.capacity()-s.count(), some.tasks), s.w.brake.Left(), s.w.brake.On()
		if try {
			room = min(room, 1)
		}
		switch {
		case rest > 0:
			next = rest
		case room > 0 && !s.dry.Load():
			s.dry.Store(true) // before asking: a sign that comes meanwhile must not be lost
			begun := time.Now()
			f, items, err := s.ask(room, some.bytes, turn)
			if err != nil {
				if ctx.Err() != nil {
					return
				}
				some.starve()
				s.w.log.Warn("tasks could not be fetched", "error", err)
				s.reconcile(ctx)
				s.dry.Store(false)
				continue
			}
			some.feed(time.Since(begun), s.w.o.Keeper.Margin().RPCTimeout)
			if len(f.Tasks) == room {
				s.dry.Store(false)
			}
			if try && len(items) > 0 {
				s.w.brake.Try() // the next one after a pause
				items[0].try = true
			}
			if f.Gone {
				s.disowned()
				return
			}
			if !f.NextDue.IsZero() {
				next = min(next, max(f.NextDue.Sub(f.Now), time.Millisecond))
			}
			last := slices.IndexFunc(items, func(it *item) bool { return it.LastCrash() })
			if last < 0 {
				s.pass(ctx, items)
			} else {
				s.pass(ctx, slices.Concat(items[:last], items[last+1:]))
				s.alone(ctx, items[last])
				s.dry.Store(false)
				continue
			}
			if len(f.Tasks) == room && s.count() <= s.low() {
				continue
			}
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case _, ok := <-signs:
			if !ok {
				signs = nil
			}
			s.dry.Store(false)
		case <-timer.C:
			s.dry.Store(false)
		}
	}
}

// alone runs a task that the next crash would end. All other tasks of the worker end first, and nothing is fetched
// until it has ended. So a crash of its neighbour cannot end it, and its own crash counts against it alone (rule Q4).
func (s *session) alone(ctx context.Context, it *item) {
	s.lonely.Store(it)
	defer s.lonely.Store(nil)
	for s.count() > 1 && s.knows(it.ID) {
		if !s.sleep(ctx) {
			return
		}
	}
	s.pass(ctx, []*item{it})
	for s.knows(it.ID) {
		if !s.sleep(ctx) {
			return
		}
	}
}

// sleep waits until a task has ended; it returns false if ctx has ended.
func (s *session) sleep(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.wake:
		return true
	}
}

// disowned handles a store that does not know this worker's lease: a server took over that never had it, its data
// was cleared, or its clock jumped past the lease. The store may give the tasks to others at once, so they are
// stopped now, not at the next heartbeat.
func (s *session) disowned() {
	s.lease.Check() // as a rule the lease is lost by this, and its guard stops the tasks
	s.end(errDisowned)
}

// pass queues tasks for the slots. Tasks that have no room when ctx ends are handed back with the others.
func (s *session) pass(ctx context.Context, items []*item) {
	for _, it := range items {
		select {
		case s.buffer <- it:
		case <-ctx.Done():
			return
		}
	}
}

// ask fetches once. The queues take turns in being the first. A shutdown waits for the answer: whatever the store
// gives can be handed back only by who knows of it.
func (s *session) ask(room, bytes, turn int) (f driver.Fetch, items []*item, err error) {
	o := s.w.o
	queues := o.Queues
	if n := len(queues); n > 1 {
		queues = append(append(make([]string, 0, n), queues[turn%n:]...), queues[:turn%n]...)
	}
	s.mu.Lock()
	crashers := s.crashers == 0
	s.strays.begun++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.strays.ended++
		s.mu.Unlock()
	}()
	ctx, cancel := s.bound(s.work)
	defer cancel()
	f, err = o.Store.Fetch(ctx, driver.FetchRequest{Worker: s.ref, NotAfter: o.Keeper.NotAfter(), Queues: queues,
		Kinds: o.Mux.kinds(), Max: room, Bytes: bytes, Suspects: true, Crashers: crashers})
	if err != nil {
		return f, nil, err
	}
	return f, s.hold(f.Tasks), nil
}

// watch asks the store to signal new tasks, if it can.
func (s *session) watch(ctx context.Context) (signs <-chan struct{}, poll time.Duration) {
	signs, err := s.w.o.Store.Watch(ctx, s.w.o.Queues)
	if err != nil {
		s.w.log.Warn("the store does not notify of new tasks; the worker polls", "error", err)
	}
	switch {
	case s.w.o.Poll > 0:
		poll = s.w.o.Poll
	case signs != nil:
		poll = time.Second
	default:
		poll = 100 * time.Millisecond
	}
	return signs, poll
}

// reconcile hands back tasks that the store gave in an answer that was lost. It asks only after the request can no
// longer be carried out (rule L1). If the store began it in time, and takes longer to end it, beat finds the tasks.
func (s *session) reconcile(ctx context.Context) {
	if !wait(ctx, s.w.o.Keeper.Margin().RPCTimeout+50*time.Millisecond) {
		return
	}
	bound, cancel := s.bound(ctx)
	defer cancel()
	mine, err := s.w.o.Store.Running(bound, s.ref, false)
	if err != nil {
		return // the next fetch fails as well, and is followed by this
	}
	var stray []driver.Ref
	for _, a := range mine {
		if !s.knows(a.ID) {
			stray = append(stray, a.Ref)
		}
	}
	s.giveBackAll(ctx, stray)
}

// knows reports whether the session has the task, or is reporting its end.
func (s *session) knows(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id] != nil || s.ending[id]
}
