package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// told is b's side of history.Store.
type told struct{ b *Backend }

// Append adds events in the order of their instants; one whose id came before is ignored.
func (h told) Append(ctx context.Context, events []history.Event) error {
	events = bounds.Of(events)
	_, err := step(ctx, h.b, func(now time.Time) any {
		for _, e := range events {
			if e.ID != "" && h.b.foreign[e.ID] {
				continue
			}
			if e.ID != "" {
				h.b.foreign[e.ID] = true
			}
			h.b.record(e, now)
		}
		return nil
	})
	return err
}

// record adds an event, in the step of whatever it tells of.
func (b *Backend) record(e history.Event, now time.Time) {
	e.ID, e.At, e.Tick = run.NewID(), micro(e.At), micro(e.Tick)
	if e.At.IsZero() {
		e.At = now
	}
	i, _ := slices.BinarySearchFunc(b.events, e.At, func(x history.Event, at time.Time) int {
		return cmp.Or(x.At.Compare(at), -1) // those of one instant stay in the order of their writing
	})
	b.events = slices.Insert(b.events, i, e)
}

func (h told) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	return step(ctx, h.b, func(time.Time) []history.Event {
		var found []history.Event
		for _, e := range slices.Backward(h.b.events) {
			if e.At.Before(q.From) || len(found) == q.Max() {
				break
			}
			if (q.To.IsZero() || e.At.Before(q.To)) && (q.Job == "" || q.Job == e.Job) && (q.RunID == "" || q.RunID == e.RunID) {
				found = append(found, e)
			}
		}
		return found
	})
}

func (h told) Output(ctx context.Context, runID string, output []byte) error {
	_, err := step(ctx, h.b, func(time.Time) any {
		h.b.outputs[runID] = append([]byte{}, output...)
		return nil
	})
	return err
}

func (h told) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	return step(ctx, h.b, func(time.Time) []byte {
		output := h.b.outputs[runID]
		return slices.Clone(output[:min(len(output), history.MaxOutput)])
	})
}

// Ticks returns rows of one job's ledger, or merges those of all jobs.
func (h told) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	return step(ctx, h.b, func(now time.Time) []tick.Tick {
		var found []tick.Tick
		if l := h.b.ticks[q.Job]; l != nil {
			found = l.latest(q)
		} else if q.Job == "" {
			for _, l := range h.b.ticks {
				found = append(found, l.latest(q)...)
			}
		}
		for i := range found {
			found[i] = h.b.told(found[i], now)
		}
		if q.Job == "" {
			slices.SortFunc(found, func(x, y tick.Tick) int {
				return cmp.Or(y.At.Compare(x.At), strings.Compare(x.Job, y.Job))
			})
		}
		return found[:min(len(found), q.Max())]
	})
}

func (h told) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	return step(ctx, h.b, func(time.Time) []run.Record {
		var found []run.Record
		if q.Job != "" {
			return h.b.runsOf[q.Job].latest(q)
		}
		for _, all := range h.b.runsOf {
			found = append(found, all.latest(q)...)
		}
		slices.SortFunc(found, func(x, y run.Record) int {
			return cmp.Or(y.Started.Compare(x.Started), strings.Compare(y.ID, x.ID))
		})
		return found[:min(len(found), q.Max())]
	})
}

func (h told) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	return step(ctx, h.b, func(now time.Time) [][]run.Record {
		return each(jobs, now, func(job string, _ time.Time) []run.Record { return h.b.runsOf[job].latest(history.Query{Limit: n}) })
	})
}

func (h told) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	return step(ctx, h.b, func(now time.Time) [][]tick.Tick {
		return each(jobs, now, func(job string, _ time.Time) (found []tick.Tick) {
			if l := h.b.ticks[job]; l != nil {
				for _, t := range l.latest(history.Query{Limit: n}) {
					found = append(found, h.b.told(t, now))
				}
			}
			return found
		})
	})
}

func (h told) AppendRuns(ctx context.Context, runs []run.Record) error {
	runs = bounds.Of(runs)
	_, err := step(ctx, h.b, func(time.Time) any {
		for _, r := range runs {
			if h.b.runs[r.ID] == nil {
				h.b.putRun(tick.AsStored(r))
			}
		}
		return nil
	})
	return err
}

func (h told) AppendTicks(ctx context.Context, ticks []tick.Tick) error {
	ticks = bounds.Of(ticks)
	_, err := step(ctx, h.b, func(time.Time) any {
		for _, t := range ticks {
			t.Lease, t.At, t.Through = lease.Ref{}, micro(t.At), micro(t.Through)
			t.Claimed, t.Started, t.Ended = micro(t.Claimed), micro(t.Started), micro(t.Ended)
			h.b.putRow(t)
		}
		return nil
	})
	return err
}

// Prune is one step: Step rows of each kind at most, and no tick above its job's mark.
func (h told) Prune(ctx context.Context, before time.Time) (n int, more bool, err error) {
	n, err = step(ctx, h.b, func(now time.Time) int {
		ticks, runs := h.b.pruneTicks(before), h.b.pruneRuns(before)
		events, _ := slices.BinarySearchFunc(h.b.events, before, func(e history.Event, at time.Time) int { return e.At.Compare(at) })
		events = min(events, history.Step)
		h.b.events = slices.Delete(h.b.events, 0, events)
		h.b.forgetLeases(now.Add(-keepFree))
		more = max(ticks, runs, events) == history.Step
		return ticks + runs + events
	})
	return n, more, err
}

func (h told) PruneOutputs(ctx context.Context, job string, keep int) (int, error) {
	return step(ctx, h.b, func(time.Time) (n int) {
		all := h.b.runsOf[job]
		old := all[:max(0, len(all)-keep)]
		for _, r := range old[max(0, len(old)-history.Step):] {
			if _, kept := h.b.outputs[r.ID]; kept {
				delete(h.b.outputs, r.ID)
				n++
			}
		}
		return n
	})
}

// pruneTicks leaves what is above its job's mark: a late server could claim it again.
func (b *Backend) pruneTicks(before time.Time) (n int) {
	for name, l := range b.ticks {
		var mark *time.Time
		if job, registered := b.jobs[name]; registered {
			mark = &job.Mark
		}
		n += l.prune(before, mark, history.Step-n)
	}
	return n
}

// keepFree is how long the record of a free lease is kept at least, for its token (rule L10).
const keepFree = 30 * 24 * time.Hour

// forgetLeases deletes records that nobody used since an instant: the clock keeps their next token
// above the last.
func (b *Backend) forgetLeases(before time.Time) {
	maps.DeleteFunc(b.leases, func(_ lease.Key, r lease.Record) bool {
		return r.Renewed.Before(before) && r.Expires.Before(before) && r.BusyUntil.Before(before)
	})
}
