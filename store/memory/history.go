package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// told is b's side of history.Store.
type told struct{ b *Backend }

func (h told) Append(ctx context.Context, events []history.Event) error {
	_, err := step(ctx, h.b, func(now time.Time) any {
		for _, e := range events {
			e.ID, e.At, e.Tick = run.NewID(), micro(e.At), micro(e.Tick)
			if e.At.IsZero() {
				e.At = now
			}
			h.b.events = append(h.b.events, e)
		}
		return nil
	})
	return err
}

func (h told) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	return step(ctx, h.b, func(time.Time) []history.Event {
		var found []history.Event
		for _, e := range slices.Backward(h.b.events) {
			if wants(q, e.Job, e.RunID) && within(q, e.At, e.At) {
				found = append(found, e)
			}
		}
		slices.SortStableFunc(found, func(x, y history.Event) int { return y.At.Compare(x.At) })
		return found[:min(len(found), q.Max())]
	})
}

func wants(q history.Query, job, runID string) bool {
	return (q.Job == "" || q.Job == job) && (q.RunID == "" || q.RunID == runID)
}

// within says whether any of first … last lies in [From, To).
func within(q history.Query, first, last time.Time) bool {
	return (q.From.IsZero() || !last.Before(q.From)) && (q.To.IsZero() || first.Before(q.To))
}

func (h told) Output(ctx context.Context, runID string, output []byte) error {
	_, err := step(ctx, h.b, func(time.Time) any {
		h.b.outputs[runID] = append([]byte{}, output...)
		return nil
	})
	return err
}

func (h told) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	return step(ctx, h.b, func(time.Time) []byte { return slices.Clone(h.b.outputs[runID]) })
}

func (h told) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	return step(ctx, h.b, func(now time.Time) []tick.Tick {
		var found []tick.Tick
		for _, rows := range h.b.ticks {
			for _, t := range rows {
				if wants(q, t.Job, q.RunID) && within(q, t.At, last(t)) {
					found = append(found, h.b.told(t, now))
				}
			}
		}
		slices.SortFunc(found, func(x, y tick.Tick) int {
			return cmp.Or(y.At.Compare(x.At), strings.Compare(x.Job, y.Job))
		})
		return found[:min(len(found), q.Max())]
	})
}

func (h told) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	return step(ctx, h.b, func(time.Time) []run.Record {
		var found []run.Record
		for _, r := range h.b.runs {
			if wants(q, r.Job, r.ID) && within(q, r.Started, r.Started) {
				found = append(found, instants(r))
			}
		}
		slices.SortFunc(found, func(x, y run.Record) int {
			return cmp.Or(y.Started.Compare(x.Started), strings.Compare(y.ID, x.ID))
		})
		return found[:min(len(found), q.Max())]
	})
}

func (h told) AppendRuns(ctx context.Context, runs []run.Record) error {
	_, err := step(ctx, h.b, func(time.Time) any {
		for _, r := range runs {
			if _, found := h.b.runs[r.ID]; !found {
				h.b.runs[r.ID] = instants(r)
			}
		}
		return nil
	})
	return err
}

func (h told) Prune(ctx context.Context, before time.Time) (int, error) {
	return step(ctx, h.b, func(time.Time) int {
		n := h.b.pruneTicks(before) + h.b.pruneRuns(before)
		kept := slices.DeleteFunc(h.b.events, func(e history.Event) bool { return e.At.Before(before) })
		n += len(h.b.events) - len(kept)
		h.b.events = kept
		return n
	})
}

// pruneTicks leaves what is above its job's mark: a late server could claim it again.
func (b *Backend) pruneTicks(before time.Time) (n int) {
	for name, rows := range b.ticks {
		job, registered := b.jobs[name]
		for at, t := range rows {
			if t.State == tick.Closed && last(t).Before(before) && (!registered || !last(t).After(job.Mark)) {
				delete(rows, at)
				n++
			}
		}
	}
	return n
}

func (b *Backend) pruneRuns(before time.Time) (n int) {
	for id, r := range b.runs {
		if r.Outcome != "" && r.Ended.Before(before) {
			delete(b.runs, id)
			delete(b.outputs, id)
			n++
		}
	}
	return n
}
