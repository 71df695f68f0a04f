package scheduler

import (
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
)

const (
	// aggregateFor is how long events are only counted that equal one just written.
	aggregateFor = time.Minute
	// mostAggregates bounds what is counted at once; beyond it each event is written.
	mostAggregates = 1000
)

// aggregates count the events of hot keys (promise 24). The zero value is empty.
type aggregates struct {
	mu  sync.Mutex
	hot map[history.Likeness]*aggregate
}

// aggregate is a likeness of which an event was written: when, and what came after it.
type aggregate struct {
	since time.Time
	event history.Event
	some  bool // event is one
}

// take counts e, which has an At; it returns false if e must be written.
func (g *aggregates) take(e history.Event) bool {
	like, ok := e.Like()
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hot[like]
	switch {
	case h == nil && len(g.hot) >= mostAggregates:
		return false
	case h == nil:
		if g.hot == nil {
			g.hot = map[history.Likeness]*aggregate{}
		}
		g.hot[like] = &aggregate{since: e.At}
		return false
	case h.some:
		h.event = history.Fold(h.event, e)
	default:
		h.event, h.some = e, true
	}
	return true
}

// due removes and returns the counted events that must be written: those due by now, or all.
func (g *aggregates) due(now time.Time, all bool) (events []history.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for like, h := range g.hot {
		if !all && now.Sub(h.since) < aggregateFor {
			continue
		}
		if h.some {
			events = append(events, h.event)
		}
		if h.since = now; !h.some || all {
			delete(g.hot, like)
		}
		h.some = false
	}
	return events
}

// back takes back what could not be written.
func (g *aggregates) back(events []history.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range events {
		like, _ := e.Like()
		if g.hot == nil {
			g.hot = map[history.Likeness]*aggregate{}
		}
		h := g.hot[like]
		switch {
		case h == nil:
			g.hot[like] = &aggregate{since: e.At, event: e, some: true}
		case h.some:
			h.event = history.Fold(e, h.event)
		default:
			h.event, h.some = e, true
		}
	}
}
