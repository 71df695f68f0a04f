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
