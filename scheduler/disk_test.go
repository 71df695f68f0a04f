package scheduler_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// frozenSpool takes nothing, and answers nothing, for a while.
type frozenSpool struct {
	*spool
	stuck atomic.Bool
}

func (s *frozenSpool) Put(i scheduler.Item) error {
	for s.stuck.Load() {
		time.Sleep(time.Second)
	}
	return s.spool.Put(i)
}

// A disk that does not answer holds up neither what is told to a store that is back, nor the end of the process.
func TestASweepDoesNotWaitForADisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		s := &frozenSpool{spool: h.spool}
		s.stuck.Store(true)
		h.withBackend(func(p *scheduler.Backend) { p.Spool = s })
		var once sync.Once
		h.start(t, newJob(t, "0 * * * *", run.Func(func(context.Context, run.Call) error {
			once.Do(func() { h.ticks.connect(false) }) // leases are renewed still
			return nil
		}), nil))
		time.Sleep(time.Hour + 5*time.Minute)
		h.ticks.connect(true) // the store is back; the disk is not
		time.Sleep(2 * time.Minute)
		if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded {
			t.Errorf("2 minutes after the store was back: %+v", rows)
		}
		h.cancel()
		begun := time.Now()
		select {
		case <-h.done:
		case <-time.After(10 * time.Minute):
			t.Errorf("it has not ended %s after it was told to", time.Since(begun))
		}
		s.stuck.Store(false)
		time.Sleep(2 * time.Second) // so that what hangs ends
		<-h.done
	})
}

// Once a disk that did not answer does so again, outcomes are kept on it as before.
func TestADiskThatAnswersAgainIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		s := &frozenSpool{spool: h.spool}
		h.withBackend(func(p *scheduler.Backend) { p.Spool = s })
		h.start(t, newJob(t, "0 * * * *", run.Func(func(context.Context, run.Call) error {
			h.ticks.connect(false)
			return nil
		}), nil))
		for hour, kept := range []int{0, 1} { // at first the disk does not answer
			s.stuck.Store(hour == 0)
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 5*time.Minute)))
			if n := len(h.spool.kept()); n != kept {
				t.Errorf("hour %d: %d outcomes are kept, want %d", hour, n, kept)
			}
			s.stuck.Store(false)
			time.Sleep(2 * time.Second)
			h.ticks.connect(true)
			time.Sleep(2 * time.Minute) // what is kept is delivered
		}
		h.stop()
	})
}
