package storetest

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

var notifyPromises = []promise{
	{"a release is told", func(w *world) {
		r := w.hold(w.s, "k")
		w.told(func(s *store.Store) { equal(w, "Release", w.release(s, r.Ref()), lease.OK) })
	}},
	{"a break is told", func(w *world) {
		r := w.hold(w.s, "k")
		w.told(func(s *store.Store) {
			equal(w, "Break", w.breakIt(s, r.Ref(), lease.Broken{By: "x", Now: true}).Status, lease.OK)
		})
	}},
	{"a watch ends with its context", watchEnds},
}

// told checks that a watcher in another process hears of what do does to key k.
func (w *world) told(do func(*store.Store)) {
	w.Helper()
	heard, err := w.process().Notify.Watch(w.ctx, "k")
	w.check("Watch", err)
	do(w.s)
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		w.Error("nothing was told within 10 s")
	}
}

func watchEnds(w *world) {
	ctx, cancel := context.WithCancel(w.ctx)
	_, err := w.s.Notify.Watch(ctx, "k")
	w.check("Watch", err)
	cancel()
	// Nobody listens any more, and nothing blocks for it.
	for range 3 {
		w.release(w.s, w.hold(w.s, "k").Ref())
	}
}
