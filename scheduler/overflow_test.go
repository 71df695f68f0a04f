package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// fullSpool is a spool whose disk is full for a while.
type fullSpool struct {
	*spool
	full atomic.Bool
}

func (s *fullSpool) Put(i scheduler.Item) error {
	if s.full.Load() {
		return errors.New("no space left on device")
	}
	return s.spool.Put(i)
}

// Promise 10: an outcome that neither the store nor this host's disk took, of a server whose lease is good, is
// recorded as soon as one of them takes it: nobody else may end that tick.
// Holds: promise 10.
func TestAnOutcomeThatNothingTookIsToldAgain(t *testing.T) {
	for name, heal := range map[string]func(*host, *fullSpool){
		"the store is back": func(h *host, _ *fullSpool) { h.ticks.connect(true) },
		"the disk has room, then the store is back": func(h *host, s *fullSpool) {
			s.full.Store(false)
			time.Sleep(time.Minute)
			h.ticks.connect(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				s := &fullSpool{spool: h.spool}
				s.full.Store(true)
				h.withBackend(func(p *scheduler.Backend) { p.Spool = s })
				var ran atomic.Bool
				h.start(t, newJob(t, "0 * * * *", run.Func(func(context.Context, run.Call) error {
					ran.Store(true)
					h.ticks.connect(false) // leases are renewed still
					return nil
				}), nil))
				time.Sleep(time.Hour + 5*time.Minute)
				if rows := w.history(); !ran.Load() || len(rows) != 1 || rows[0].Outcome != "" {
					t.Fatalf("it ran: %t; the ticks are %+v", ran.Load(), rows)
				}
				heal(h, s)
				time.Sleep(time.Minute)
				if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded {
					t.Errorf("the ticks are %+v", rows)
				}
				h.stop()
			})
		})
	}
}

// connect cuts the ticks off from the store, or connects them again.
func (l *tickLink) connect(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = !on
}
