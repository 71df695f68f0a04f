package mirror

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// copying is one pass.
type copying struct {
	*Mirror
	ctx           context.Context
	now, from     time.Time
	before, after Position
	again         map[ID]bool // ticks to look at, although they are older than from
}

// runs copies the runs that began since the last pass, and those that had no outcome then.
func (c *copying) runs() error {
	err := pages(history.Query{From: c.from}, read(c.ctx, c.From.History.Runs), func(r run.Record) time.Time { return r.Started }, c.sendRuns)
	if err != nil {
		return err
	}
	for _, id := range c.before.Runs {
		rows, err := c.From.History.Runs(c.ctx, history.Query{RunID: id, Limit: 1})
		if err != nil {
			return fmt.Errorf("read a run of the host's directory: %w", err)
		}
		if len(rows) == 0 || !rows[0].Started.Before(c.from) {
			continue // it was pruned, or looked at just now
		}
		if err := c.sendRuns(rows); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) sendRuns(rows []run.Record) error {
	ended := make([]run.Record, 0, len(rows))
	for _, r := range rows {
		// A run of an older tick, caught up or run again, means that the tick has changed.
		if !r.Tick.IsZero() && r.Tick.Before(c.from) {
			c.again[ID{r.Job, r.Tick}] = true
		}
		if r.Outcome == "" {
			c.after.Runs = append(c.after.Runs, r.ID)
			continue
		}
		r.Job = c.named(r.Job)
		ended = append(ended, r)
	}
	if len(ended) == 0 {
		return nil
	}
	if err := c.To.History.AppendRuns(c.ctx, ended); err != nil {
		return fmt.Errorf("copy runs: %w", err)
	}
	return nil
}

// jobs copies ticks: the new ones of all jobs, and, for each job whose mark has moved, those that were settled
// since.
func (c *copying) jobs(jobs []tick.Job) error {
	known := map[string]bool{}
	for _, j := range jobs {
		known[j.Name], c.after.Marks[j.Name] = true, j.Mark
	}
	send := func(rows []tick.Tick) error {
		return c.sendTicks(slices.DeleteFunc(slices.Clone(rows), func(t tick.Tick) bool { return !known[t.Job] }))
	}
	if err := c.recent(jobs, send); err != nil {
		return err
	}
	for _, j := range jobs {
		mark := c.before.Marks[j.Name]
		if mark.Equal(j.Mark) || !mark.Before(c.from) {
			continue
		}
		if oldest := c.now.Add(-lookBack); mark.Before(oldest) {
			mark = oldest
		}
		if err := c.ticks(history.Query{Job: j.Name, From: mark, To: c.from}, send); err != nil {
			return err
		}
	}
	return nil
}

// recent copies the new ticks of all jobs, without a request per job, unless more are due at one instant than a page
// holds.
func (c *copying) recent(jobs []tick.Job, send func([]tick.Tick) error) error {
	for q := (history.Query{From: c.from, Limit: page}); ; {
		rows, err := read(c.ctx, c.From.History.Ticks)(q)
		if err != nil {
			return err
		}
		if err := send(rows); err != nil || len(rows) < page {
			return err
		}
		last := rows[page-1].At
		if q.To = last.Add(time.Microsecond); !rows[0].At.Equal(last) {
			continue // others of that instant may be on the next page
		}
		for _, j := range jobs {
			if err := c.ticks(history.Query{Job: j.Name, From: last, To: q.To}, send); err != nil {
				return err
			}
		}
		q.To = last
	}
}

func (c *copying) ticks(q history.Query, send func([]tick.Tick) error) error {
	return pages(q, read(c.ctx, c.From.History.Ticks), func(t tick.Tick) time.Time { return t.At }, send)
}

func (c *copying) sendTicks(rows []tick.Tick) error {
	closed := make([]tick.Tick, 0, len(rows))
	for _, t := range rows {
		id := ID{t.Job, t.At}
		delete(c.again, id)
		if t.State != tick.Closed {
			c.after.Ticks = append(c.after.Ticks, id)
			continue
		}
		t.Job = c.named(t.Job)
		closed = append(closed, t)
	}
	if len(closed) == 0 {
		return nil
	}
	if err := c.To.History.AppendTicks(c.ctx, closed); err != nil {
		return fmt.Errorf("copy ticks: %w", err)
	}
	return nil
}

// unfinished looks again at ticks that had no outcome, and at those that have another run.
func (c *copying) unfinished() error {
	seen := map[ID]bool{}
	for _, id := range c.after.Ticks {
		seen[id] = true
	}
	for _, id := range c.before.Ticks {
		c.again[id] = true
	}
	for id := range c.again {
		if seen[id] {
			continue
		}
		rows, err := c.From.History.Ticks(c.ctx, history.Query{Job: id.Job, From: id.At, To: id.At.Add(time.Microsecond), Limit: 1})
		if err != nil {
			return fmt.Errorf("read a tick of the host's directory: %w", err)
		}
		if err := c.sendTicks(rows); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) events() error {
	return pages(history.Query{From: c.from}, read(c.ctx, c.From.History.Events), func(e history.Event) time.Time { return e.At },
		func(events []history.Event) error {
			for i := range events {
				e := &events[i]
				e.ID = c.name.ID + "-" + e.ID
				if e.Job != "" {
					e.Job = c.named(e.Job)
				}
			}
			if len(events) == 0 {
				return nil
			}
			if err := c.To.History.Append(c.ctx, events); err != nil {
				return fmt.Errorf("copy events: %w", err)
			}
			return nil
		})
}

func (c *copying) named(job string) string { return On(job, c.name.ID) }

// read reads the host's directory.
func read[T any](ctx context.Context, from func(context.Context, history.Query) ([]T, error)) func(history.Query) ([]T, error) {
	return func(q history.Query) ([]T, error) {
		rows, err := from(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read the host's directory: %w", err)
		}
		return rows, nil
	}
}

// pages passes all that q selects to take, a page at a time, the latest first.
func pages[T any](q history.Query, read func(history.Query) ([]T, error), at func(T) time.Time, take func([]T) error) error {
	q.Limit = page
	for {
		rows, err := read(q)
		if err != nil || len(rows) == 0 {
			return err
		}
		last := at(rows[len(rows)-1])
		if err := take(rows); err != nil || len(rows) < page {
			return err
		}
		to := last.Add(time.Microsecond) // others of that instant may be on the next page
		if !q.To.IsZero() && !to.Before(q.To) {
			to = last
		}
		q.To = to
	}
}
