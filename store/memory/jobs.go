package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	return step(ctx, k.b, func(time.Time) []tick.Job {
		var found []tick.Job
		for _, name := range k.b.registered(q) {
			if j, there := k.b.jobs[name]; there {
				j.Definition = j.Definition[:min(len(j.Definition), tick.MaxDefinition+1)]
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
	req = bounds.Of(req)
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
	req = bounds.Of(req)
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return tick.Answer{Status: k.b.settle(req, now), Now: now}
	})
}

func (b *Backend) settle(req tick.SettleRequest, now time.Time) tick.Status {
	job := b.jobs[req.Job]
	var above []tick.Tick
	if l := b.ticks[req.Job]; l != nil {
		n, at := l.find(job.Mark)
		if at {
			n++
		}
		above = l.rows[n:]
	}
	s, job, rows := tick.JudgeSettle(req, job, above, now)
	for _, row := range rows {
		if _, there := b.row(req.Job, row.At); !there {
			b.putRow(row)
		}
	}
	if s == tick.Won {
		b.jobs[req.Job] = job
	}
	return s
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

func (k ticks) Split(ctx context.Context, req tick.SplitRequest) (tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return k.b.answer(k.b.split(req), req.Row.Job, req.Row.At, now)
	})
}

func (b *Backend) split(req tick.SplitRequest) tick.Status {
	row, _ := b.row(req.Row.Job, req.Row.At)
	if !req.Splits(row) {
		return tick.Taken
	}
	for _, p := range req.Parts {
		row.At, row.Through, row.Count = micro(p.At), micro(p.Through), p.Count
		b.putRow(row)
	}
	return tick.Won
}
