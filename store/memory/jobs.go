package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	return step(ctx, k.b, func(time.Time) []tick.Job {
		var found []tick.Job
		for _, name := range k.b.registered(q) {
			if j, there := k.b.jobs[name]; there {
				found = append(found, j)
			}
		}
		return found
	})
}

// registered are the names that a query is about, sorted.
func (b *Backend) registered(q tick.JobQuery) []string {
	if len(q.Names) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(q.Names)))
	}
	var names []string
	for name := range b.jobs {
		if strings.HasPrefix(name, q.Prefix) && name > q.After {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), q.Max())]
}

func (k ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	return step(ctx, k.b, func(now time.Time) []tick.Job { return each(reqs, now, k.b.setJob) })
}

func (b *Backend) setJob(req tick.JobRequest, now time.Time) tick.Job {
	job, found := b.jobs[req.Name]
	job, changed := req.Apply(job, found, now)
	if changed {
		b.jobs[req.Name] = job
	}
	return job
}

func (k ticks) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	return step(ctx, k.b, func(now time.Time) tick.Job {
		job, found := k.b.jobs[req.Job]
		if !found || !job.Removed.IsZero() {
			return tick.Job{Name: req.Job}
		}
		req.Until = micro(req.Until)
		job.Pause = req.Apply(job.Pause, now)
		k.b.jobs[req.Job] = job
		return job
	})
}

func (k ticks) Settle(ctx context.Context, req tick.SettleRequest) (tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return tick.Answer{Status: k.b.settle(req, now), Now: now}
	})
}

func (b *Backend) settle(req tick.SettleRequest, now time.Time) tick.Status {
	job, found := b.jobs[req.Job]
	if !found || !job.Mark.Equal(micro(req.From)) || req.Generation != 0 && req.Generation != job.Generation {
		return tick.Taken
	}
	to := b.settleable(req)
	for _, row := range req.Rows {
		if _, there := b.row(req.Job, row.At); !there && !last(&row).After(to) {
			b.putRow(settled(req.Job, row, now))
		}
	}
	if job.Mark.Before(to) {
		job.Mark = to
		b.jobs[req.Job] = job
	}
	return tick.Won
}

// settleable is how far the mark may go: to just before the oldest unfinished tick above it, and before a
// range row that would cover a tick with a row of its own, which would then have two outcomes.
func (b *Backend) settleable(req tick.SettleRequest) time.Time {
	to := micro(req.To)
	before := func(at time.Time) {
		if at = micro(at).Add(-time.Microsecond); at.Before(to) {
			to = at
		}
	}
	if l := b.ticks[req.Job]; l != nil {
		for us := range l.open {
			if at := time.UnixMicro(us).UTC(); at.After(b.jobs[req.Job].Mark) {
				before(at)
			}
		}
		for _, row := range req.Rows {
			if i, _ := l.find(row.At); !row.Through.IsZero() && i < len(l.rows) && !l.rows[i].At.After(row.Through) {
				before(row.At)
			}
		}
	}
	// A range that the mark would cut in two is left for the next time.
	for _, row := range req.Rows {
		if !row.At.After(to) && last(&row).After(to) {
			before(row.At)
		}
	}
	return to
}

func (k ticks) Unsettle(ctx context.Context, req tick.UnsettleRequest) (tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return tick.Answer{Status: k.b.unsettle(req, now), Now: now}
	})
}

func (b *Backend) unsettle(req tick.UnsettleRequest, now time.Time) tick.Status {
	req.From, req.To = micro(req.From), micro(req.To)
	job, found := b.jobs[req.Job]
	if !found || !req.Allows(job, now) {
		return tick.Taken
	}
	for _, r := range req.Rows {
		if t, there := b.row(req.Job, r.At); !there || !req.Takes(t, micro(r.Through), now) {
			return tick.Taken
		}
	}
	for _, r := range req.Rows {
		b.ticks[req.Job].remove(micro(r.At))
	}
	b.jobs[req.Job] = job.Back(req.To, now)
	return tick.Won
}

func settled(job string, row tick.Tick, now time.Time) tick.Tick {
	t := tick.Tick{Job: job, At: micro(row.At), Through: micro(row.Through), Count: row.Count, State: tick.Closed,
		Outcome: row.Outcome, Reason: row.Reason, Inferred: row.Inferred, Ended: micro(row.Ended)}
	if t.Ended.IsZero() {
		t.Ended = now
	}
	return t
}

// last is the last tick of a row, which may stand for a range.
func last(t *tick.Tick) time.Time {
	if t.Through.After(t.At) {
		return t.Through
	}
	return t.At
}

func (k ticks) Split(ctx context.Context, req tick.SplitRequest) (tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return k.b.answer(k.b.split(req), req.Row.Job, req.Row.At, now)
	})
}

func (b *Backend) split(req tick.SplitRequest) tick.Status {
	row, found := b.row(req.Row.Job, req.Row.At)
	if !found || row.Through.IsZero() || !row.Through.Equal(micro(req.Row.Through)) || row.Count != req.Row.Count {
		return tick.Taken
	}
	for _, p := range req.Parts {
		row.At, row.Through, row.Count = micro(p.At), micro(p.Through), p.Count
		b.putRow(row)
	}
	return tick.Won
}
