package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
)

const (
	// foldFor is how long events that are like one just written are counted instead.
	foldFor = time.Minute
	// mostFolds bounds what is counted at once; beyond it each event is written.
	mostFolds = 1000
)

// folds count the events of hot keys (promise 24). The zero folds are empty.
type folds struct {
	mu  sync.Mutex
	hot map[history.Likeness]*hot
}

// hot is a likeness of which an event was written: since when, and what came after it.
type hot struct {
	since time.Time
	event history.Event
	some  bool // event is one
}

// take counts e, which has an At; false: e is to be written.
func (f *folds) take(e history.Event) bool {
	like, ok := e.Like()
	if !ok {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hot[like]
	switch {
	case h == nil && len(f.hot) >= mostFolds:
		return false
	case h == nil:
		if f.hot == nil {
			f.hot = map[history.Likeness]*hot{}
		}
		f.hot[like] = &hot{since: e.At}
		return false
	case h.some:
		h.event = history.Fold(h.event, e)
	default:
		h.event, h.some = e, true
	}
	return true
}

// due takes out what was counted and is to be written: by now, or all of it.
func (f *folds) due(now time.Time, all bool) (events []history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for like, h := range f.hot {
		if !all && now.Sub(h.since) < foldFor {
			continue
		}
		if h.some {
			events = append(events, h.event)
		}
		if h.since = now; !h.some || all {
			delete(f.hot, like)
		}
		h.some = false
	}
	return events
}

// back takes in what could not be written.
func (f *folds) back(events []history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		like, _ := e.Like()
		if f.hot == nil {
			f.hot = map[history.Likeness]*hot{}
		}
		h := f.hot[like]
		switch {
		case h == nil:
			f.hot[like] = &hot{since: e.At, event: e, some: true}
		case h.some:
			h.event = history.Fold(e, h.event)
		default:
			h.event, h.some = e, true
		}
	}
}

// flush writes what was counted: what is old enough, or all of it at the end of a process.
func (p *Backend) flush(ctx context.Context, all bool) {
	now := p.now()
	events := p.folds.due(now, all)
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Keeper.Margin().RPCTimeout)
	defer cancel()
	written := make([]history.Event, len(events))
	for i, e := range events {
		written[i] = e
		if n, _, _ := e.Times(); n > 1 {
			written[i].At = now // it says itself when they were
		}
	}
	if err := p.History.Append(ctx, written); err != nil {
		p.log().Warn("could not record events yet", "events", len(events), "error", err)
		p.folds.back(events)
	}
}
