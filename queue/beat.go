package queue

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
)

const (
	beatEvery = time.Second
	tendEvery = time.Second
	idleEvery = time.Minute
)

// beat asks every second which tasks must stop, asks with each heartbeat which tasks the worker has, and hands back
// those that wait too long for a slot. A worker that has none asks once a minute whether the store agrees.
func (s *session) beat(ctx context.Context) {
	var whole time.Time // when it asked for all
	for wait(ctx, beatEvery) {
		s.handBack(stale)
		idle, every := s.idle(), s.w.o.Keeper.Margin().Heartbeat
		if idle {
			every = idleEvery
		}
		now := time.Now()
		all := now.Sub(whole) >= every
		if idle && !all {
			continue
		}
		ended := s.fetches()
		bound, cancel := s.bound(ctx)
		mine, err := s.w.o.Store.Running(bound, s.ref, !all)
		cancel()
		if err != nil {
			s.w.log.Debug("the store did not say which tasks to stop", "error", err)
			continue
		}
		for _, a := range mine {
			if a.Stop != "" {
				s.stopTask(a)
			}
		}
		if all {
			whole = now
			s.forget(now, mine)
			s.giveBack(ctx, ended, mine)
		}
	}
}

// maintain calls Store.Maintain about once a second: this worker's share of the work that belongs to no process.
func (s *session) maintain(ctx context.Context) {
	for wait(ctx, tendEvery/2+rand.N(tendEvery)) {
		for more := true; more && ctx.Err() == nil; {
			more = s.maintainOnce(ctx)
		}
	}
}

func (s *session) maintainOnce(ctx context.Context) (more bool) {
	bound, cancel := s.bound(ctx)
	defer cancel()
	t, err := s.w.o.Store.Maintain(bound, driver.MaintainRequest{Keep: s.w.o.Keep})
	if err != nil {
		s.w.log.Debug("the queues could not be maintained", "error", err)
		return false
	}
	for _, d := range t.Dead {
		s.w.log.Warn("a worker is gone; its tasks are available again", "host", d.Host, "pid", d.PID, "tasks", d.Running)
	}
	if t.Crashed > 0 {
		s.w.log.Warn("tasks have crashed their workers too often, and are not tried again; see dibs task list --state crashed",
			"event", "task-crashed", "tasks", t.Crashed)
		if s.w.o.Observe != nil {
			s.w.o.Observe(observe.Event{On: observe.Ended, Of: observe.Task, Outcome: counters.Crashed, Count: t.Crashed})
		}
		s.w.told.tell(Happening{On: TaskCrashed, Outcome: "crashed", Count: t.Crashed, Ended: t.Now})
	}
	if t.Repaired > 0 {
		s.w.log.Error("slots of limits were counted wrongly, and were repaired", "slots", t.Repaired)
	}
	if t.Rescued+t.Due > 0 {
		s.sign()
	}
	return t.More
}
