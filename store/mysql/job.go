package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

// Jobs reads a page of the registry, or jobs by name.
func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) (found []tick.Job, err error) {
	from, to := q.Range()
	p := new(packet).add("registry", k.ns, []byte(from), []byte(to), []byte(to), []byte(q.After), q.Max())
	if len(q.Names) > 0 {
		var names list
		for _, name := range q.Names {
			names = append(names, []byte(name))
		}
		p = new(packet).add("jobs", k.ns, names)
	}
	err = k.run(ctx, p, func(r *sql.Rows) error {
		j, err := scanJob(r)
		found = append(found, j)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return found, nil
}

func (k ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) (jobs []tick.Job, err error) {
	for chunk := range slices.Chunk(reqs, mostTicks) {
		some, err := k.setJobs(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("register jobs: %w", err)
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

// setJobs makes missing rows, locks the jobs, defines or removes each, and reads them as they stand (rule T11).
func (k ticks) setJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	var names list
	for _, r := range reqs {
		names = append(names, []byte(r.Name))
	}
	p := new(packet).add("begin").add("lock-jobs", k.ns, names).add("clock")
	sorted := slices.Clone(reqs)
	slices.SortStableFunc(sorted, func(x, y tick.JobRequest) int { return strings.Compare(x.Name, y.Name) })
	for _, r := range sorted {
		name, since, definition := []byte(r.Name), micros(r.Since), []byte(r.Definition)
		if r.Remove {
			p.add("remove", since, since, k.ns, name, r.Of)
			continue
		}
		p.add("register", k.ns, name)
		forgotten := micros(r.Mark)
		p.add("define", r.Of, since, since, text(r.Past), forgotten, definition, k.ns, name, definition, forgotten, r.Of, r.Of)
	}
	found := jobRows{}
	p.add("jobs", k.ns, names).add("commit")
	if err := k.run(ctx, p, found.read); err != nil {
		return nil, err
	}
	jobs := make([]tick.Job, len(reqs))
	for i, r := range reqs {
		jobs[i] = found[r.Name]
		jobs[i].Name = r.Name
	}
	return jobs, nil
}

// Pause begins or ends a pause, behind the claims that are under way (rule T8).
func (k ticks) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	req = bounds.Of(req)
	name := list{[]byte(req.Job)}
	p := new(packet).add("begin").add("lock-jobs", k.ns, name).add("clock").add("pausing", k.ns, name[0])
	if req.Resume {
		p.add("resume", k.ns, name[0])
	} else {
		p.add("pause", micros(req.Until), text(req.By), text(req.Why), k.ns, name[0])
	}
	found := jobRows{}
	p.add("jobs", k.ns, name).add("commit")
	if err := k.run(ctx, p, found.read); err != nil {
		return tick.Job{}, fmt.Errorf("pause: %w", err)
	}
	if j, there := found[req.Job]; there && j.Removed.IsZero() {
		return j, nil
	}
	return tick.Job{Name: req.Job}, nil
}

// Settle locks the job and sends a row of statements, of which each does nothing once one has found that it must not
// (rule T4).
func (k ticks) Settle(ctx context.Context, req tick.SettleRequest) (tick.Answer, error) {
	req = bounds.Of(req)
	name, from := []byte(req.Job), micros(req.From)
	p := new(packet).add("begin").add("lock-jobs", k.ns, list{name}).add("clock")
	p.add("settle-open", k.ns, name, from, req.Generation, micros(req.To), k.ns, name, from)
	for _, row := range req.Rows {
		if at, through := micros(row.At), micros(row.Through); through != 0 {
			p.add("settle-covered", k.ns, name, at, through, at)
		}
	}
	for _, row := range tick.LatestFirst(req.Rows) {
		if at, end := micros(row.At), micros(row.Last()); end > at {
			p.add("settle-cut", at, end, at)
		}
	}
	for _, row := range req.Rows {
		ended := micros(row.Ended)
		p.add("settle-row", micros(row.At), micros(row.Through), row.Count, string(row.Outcome), text(row.Reason),
			flag(row.Inferred), ended, ended, k.ns, name, micros(row.Last()))
	}
	return k.settled(ctx, "settle", p.add("settle-mark", k.ns, name).add("settled").add("commit"))
}

// Unsettle takes outcomes back that a fast clock gave (rule L12).
func (k ticks) Unsettle(ctx context.Context, req tick.UnsettleRequest) (tick.Answer, error) {
	name, to := []byte(req.Job), micros(req.To)
	var where spots
	var at list
	var ranges rows
	for _, row := range req.Rows {
		us := micros(row.At)
		where, at = append(where, spotOf(req.Job, row.At)), append(at, us)
		ranges = append(ranges, []any{us, micros(row.Through)})
	}
	p := new(packet).add("begin").add("lock-jobs", k.ns, list{name})
	if len(where) > 0 {
		p.add("lock-ticks", k.ns, where)
	}
	p.add("clock").add("unsettle-open", k.ns, name, micros(req.From), to, to, to, tick.MaxBack.Microseconds())
	if len(where) > 0 {
		p.add("unsettle-rows", k.ns, name, ranges, at, to, len(at)).add("unsettle-delete", k.ns, name, at)
	}
	return k.settled(ctx, "unsettle", p.add("unsettle-mark", to, to, to, to, k.ns, name).add("settled").add("commit"))
}

// settled sends a packet that answers the clock and whether it did its work.
func (k ticks) settled(ctx context.Context, what string, p *packet) (tick.Answer, error) {
	a, won := tick.Answer{Status: tick.Taken}, false
	err := k.run(ctx, p, func(r *sql.Rows) error {
		var us int64
		err := r.Scan(&us, &won)
		a.Now = instant(us)
		return err
	})
	if err != nil {
		return tick.Answer{}, fmt.Errorf("%s: %w", what, err)
	}
	if won {
		a.Status = tick.Won
	}
	return a, nil
}

func (k ticks) Split(ctx context.Context, req tick.SplitRequest) (tick.Answer, error) {
	name, whole := []byte(req.Row.Job), micros(req.Row.At)
	p := new(packet).add("begin").add("lock-ticks", k.ns, spots{spotOf(req.Row.Job, req.Row.At)}).add("clock")
	p.add("split-open", k.ns, name, whole, micros(req.Row.Through), req.Row.Count)
	for _, part := range req.Parts {
		if at, through := micros(part.At), micros(part.Through); at != whole {
			p.add("split-part", at, through, part.Count, k.ns, name, whole)
		} else {
			p.add("split-first", through, part.Count, k.ns, name, whole)
		}
	}
	return k.settled(ctx, "split", p.add("split-done").add("commit"))
}
