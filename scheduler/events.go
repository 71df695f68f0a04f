package scheduler

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/dibs-run/dibs/history"
)

// recorder writes events, to the log and to history.
type recorder struct {
	b             *Backend
	requests      *requests
	aggregates    aggregates
	heldBackUntil atomic.Int64 // until when the store holds back that was reported last, in ns of the Keeper's Boot
}

// event records something that nobody should have to guess. It writes to the log, and to history if the store
// answers. Of many equal events the first is written at once, and the others are counted.
func (r *recorder) event(ctx context.Context, e history.Event) {
	level := slog.LevelInfo
	switch e.Kind {
	case "run-crashed":
		level = slog.LevelError
	case "clock-offset", "clock-step", "definition-restored", "definition-unreadable", "hook-failed", "leftovers", "manifest-differs", "tick-taken-over":
		level = slog.LevelWarn
	}
	args := []any{"event", e.Kind}
	for _, a := range []struct{ name, value string }{{"job", e.Job}, {"tick", stamp(e.Tick)}, {"run_id", e.RunID}} {
		if a.value != "" {
			args = append(args, a.name, a.value)
		}
	}
	r.b.log().Log(ctx, level, e.Reason, args...)
	r.record(ctx, e)
}

// record is event without the line in the log.
func (r *recorder) record(ctx context.Context, e history.Event) {
	e.Host, e.Reason = r.b.Self.Host, clean(e.Reason)
	if r.b.History == nil {
		return
	}
	if e.At = r.b.now(); !e.At.IsZero() && r.aggregates.take(e) {
		return
	}
	if _, err := r.requests.open().events.Do(context.WithoutCancel(ctx), e); err != nil {
		r.b.log().Warn("could not record an event", "event", e.Kind, "error", err)
	}
}

// recordNow records one event at once, or returns why it could not. It does nothing if the store keeps no history.
func (r *recorder) recordNow(ctx context.Context, e history.Event) error {
	e.Host, e.Reason = r.b.Self.Host, clean(e.Reason)
	if r.b.History == nil {
		return nil
	}
	return r.b.History.Append(ctx, []history.Event{e})
}

// flush writes what was counted: what is old enough, or everything at the end of a process.
func (r *recorder) flush(ctx context.Context, all bool) {
	now := r.b.now()
	events := r.aggregates.due(now, all)
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	written := make([]history.Event, len(events))
	for i, e := range events {
		written[i] = e
		if n, _, _ := e.Times(); n > 1 {
			written[i].At = now // it says itself when they were
		}
	}
	if err := r.b.History.Append(ctx, written); err != nil {
		r.b.log().Warn("could not record events yet", "events", len(events), "error", err)
		r.aggregates.back(events)
	}
}
