package redis

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

// Jobs reads a page of the registry, or jobs by name.
func (t ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	if len(q.Names) > 0 {
		return t.named(ctx, slices.Compact(slices.Sorted(slices.Values(q.Names))))
	}
	from, to := lexRange(q.Prefix)
	if q.After != "" {
		from = "(" + q.After
	}
	r, err := t.run(ctx, "jobs", jobsScript, append(t.newArgs(3), from, to, q.Max()))
	return parseJobs(r), err
}

func (t ticks) named(ctx context.Context, names []string) (all []tick.Job, err error) {
	err = inBatches(names, func(names []string) error {
		a := t.newArgs(len(names))
		for _, name := range names {
			a = append(a, name)
		}
		r, err := t.run(ctx, "jobs", namedScript, a)
		all = append(all, parseJobs(r)...)
		return err
	})
	return all, err
}

// SetJobs registers and removes definitions (rule T11): see lua/set_jobs.lua.
func (t ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	out := make([]tick.Job, 0, len(reqs))
	err := inBatches(reqs, func(reqs []tick.JobRequest) error {
		a := t.newArgs(7 * len(reqs))
		for _, q := range reqs {
			a = append(a, q.Name, q.Definition, micros(q.Since), q.Past, q.Of, flag(q.Remove), micros(q.Mark))
		}
		r, err := t.run(ctx, "register", setJobsScript, a)
		out = append(out, parseJobs(r)...)
		return err
	})
	return out, err
}

func parseJobs(r reply) []tick.Job {
	var all []tick.Job
	for i := 1; i < len(r); i++ {
		j := r.list(i)
		all = append(all, tick.Job{Name: j.text(0), Definition: j.text(1), Generation: j.int(2),
			Since: j.time(3), Mark: j.time(4), Removed: j.time(5),
			Pause: tick.Pause{Since: j.time(6), Until: j.time(7), By: j.text(8), Why: j.text(9), Resumed: j.int(10) == 1}, Past: j.text(11)})
	}
	return all
}

func (t ticks) Pause(ctx context.Context, q tick.PauseRequest) (tick.Job, error) {
	q = bounds.Of(q)
	r, err := t.run(ctx, "pause", pauseScript, append(t.newArgs(5), q.Job, micros(q.Until), q.By, q.Why, flag(q.Resume)))
	if found := parseJobs(r); len(found) > 0 {
		return found[0], err
	}
	return tick.Job{Name: q.Job}, err
}

// Settle fulfils tick.Store.
func (t ticks) Settle(ctx context.Context, q tick.SettleRequest) (tick.Answer, error) {
	q = bounds.Of(q)
	return q.InParts(maxBatch, func(part tick.SettleRequest) (tick.Answer, time.Time, error) { return t.settle(ctx, part) })
}

func (t ticks) settle(ctx context.Context, q tick.SettleRequest) (_ tick.Answer, mark time.Time, err error) {
	a := append(t.newArgs(4+7*len(q.Rows)), q.Job, micros(q.From), micros(q.To), q.Generation)
	for _, row := range q.Rows {
		a = append(a, micros(row.At), micros(row.Through), row.Count, string(row.Outcome), row.Reason,
			flag(row.Inferred), micros(row.Ended))
	}
	r, err := t.run(ctx, "settle", settleScript, a)
	return tickAnswer(r), r.time(3), err
}

func (t ticks) Split(ctx context.Context, q tick.SplitRequest) (tick.Answer, error) {
	a := append(t.newArgs(4+3*len(q.Parts)), q.Row.Job, micros(q.Row.At), micros(q.Row.Through), q.Row.Count)
	for _, p := range q.Parts {
		a = append(a, micros(p.At), micros(p.Through), p.Count)
	}
	r, err := t.run(ctx, "split", splitScript, a)
	return tickAnswer(r), err
}

func (t ticks) Unsettle(ctx context.Context, q tick.UnsettleRequest) (tick.Answer, error) {
	a := append(t.newArgs(4+2*len(q.Rows)), q.Job, micros(q.From), micros(q.To), tick.MaxBack.Microseconds())
	for _, row := range q.Rows {
		a = append(a, micros(row.At), micros(row.Through))
	}
	r, err := t.run(ctx, "unsettle", unsettleScript, a)
	return tickAnswer(r), err
}
