package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// past fulfils history.Store. It finds what is asked for in an index, and then reads it in batches, so that a long
// answer does not occupy the server. Rows that are pruned in between are left out.
type past struct{ *db }

func (p past) Output(ctx context.Context, runID string, output []byte) error {
	if err := p.client.Set(ctx, p.prefix+"output:"+runID, output, 0).Err(); err != nil {
		return p.wrap("keep output", err)
	}
	return nil
}

func (p past) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	key, pipe := p.prefix+"output:"+runID, p.client.Pipeline()
	there, output := pipe.Exists(ctx, key), pipe.GetRange(ctx, key, 0, history.MaxOutput-1)
	switch _, err := pipe.Exec(ctx); {
	case err != nil:
		return nil, p.wrap("read output", err)
	case there.Val() == 0:
		return nil, nil
	}
	return []byte(output.Val()), nil
}

// Ticks reads a page of ticks: of one job with one script, of all jobs by the index.
func (p past) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	if q.Job != "" && q.Max() <= history.Snapshot {
		from, to := span(q)
		r, err := p.run(ctx, "read ticks", windowScript, append(p.newArgs(4), q.Job, from, to, q.Max()))
		return parseTicks(r), err
	}
	members, err := p.newest(ctx, of("ticks", q.Job), q)
	if err != nil {
		return nil, err
	}
	if len(members) < q.Max() && !q.From.IsZero() {
		early, err := p.reachingIn(ctx, q, q.Max()-len(members))
		if err != nil {
			return nil, err
		}
		members = append(members, early...)
	}
	found, err := p.rows(ctx, members)
	slices.SortStableFunc(found, func(x, y tick.Tick) int {
		return cmp.Or(y.At.Compare(x.At), strings.Compare(x.Job, y.Job))
	})
	return found[:min(len(found), q.Max())], err
}

// reachingIn finds range rows that begin before q.From and end in or after it, most of them at most. A job has at
// most one, since its ranges do not overlap: the first one that ends there. Those of all jobs are looked for page by
// page.
func (p past) reachingIn(ctx context.Context, q history.Query, most int) (early []string, err error) {
	from, index := strconv.FormatInt(micros(q.From), 10), p.prefix+of("ranges", q.Job)
	page := int64(maxBatch)
	if q.Job != "" {
		page = 1
	}
	before, err := p.client.ZCount(ctx, index, "-inf", "("+from).Result()
	for err == nil && len(early) < most {
		var some []string
		some, err = p.client.ZRange(ctx, index, before, before+page-1).Result()
		for _, member := range some {
			at, _, _ := strings.Cut(member, ":")
			if us, err := strconv.ParseInt(at, 10, 64); err == nil && us < micros(q.From) {
				early = append(early, member)
			}
		}
		if before += page; len(some) < int(page) || q.Job != "" {
			break
		}
	}
	return early[:min(len(early), most)], p.wrapped("read ticks", err)
}

func (p past) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	ids := []string{q.RunID}
	if q.RunID == "" {
		var err error
		if ids, err = p.newest(ctx, of("runs", q.Job), q); err != nil {
			return nil, err
		}
	}
	var found []run.Record
	err := inBatches(ids, func(ids []string) error {
		rows, err := p.hashes(ctx, "run:", ids, runFields)
		for _, r := range rows {
			rec := parseRun(r)
			if rec.ID != "" && (q.Job == "" || q.Job == rec.Job) && within(q, rec.Started) {
				found = append(found, rec)
			}
		}
		return err
	})
	return found, err
}

// Latest reads the latest runs of each job in two round trips.
func (p past) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	found := make([][]run.Record, 0, len(jobs))
	err := inBatches(jobs, func(jobs []string) error {
		indexes, ids, err := p.latest(ctx, "runs", jobs, n)
		if err != nil {
			return err
		}
		var rows []reply
		err = inBatches(ids, func(ids []string) error {
			some, err := p.hashes(ctx, "run:", ids, runFields)
			rows = append(rows, some...)
			return err
		})
		if err != nil {
			return err
		}
		for _, index := range indexes {
			of := len(index.Val())
			found = append(found, parseRuns(rows[:of]))
			rows = rows[of:]
		}
		return nil
	})
	return found, err
}

// LatestTicks reads the latest ticks of each job in two round trips.
func (p past) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	var rows []tick.Tick
	err := inBatches(slices.Compact(slices.Sorted(slices.Values(jobs))), func(jobs []string) error {
		_, members, err := p.latest(ctx, "ticks", jobs, n)
		if err != nil {
			return err
		}
		some, err := p.rows(ctx, members)
		rows = append(rows, some...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return tick.PerJob(rows, jobs), nil
}

// latest reads the last n members of each job's index, and all of them in one.
func (p past) latest(ctx context.Context, index string, jobs []string, n int) (each []*goredis.StringSliceCmd, all []string, err error) {
	pipe := p.client.Pipeline()
	for _, job := range jobs {
		each = append(each, pipe.ZRevRange(ctx, p.prefix+of(index, job), 0, int64(n-1)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, nil, p.wrap("read "+index, err)
	}
	for _, members := range each {
		all = append(all, members.Val()...)
	}
	return each, all, nil
}

// rows reads ticks by their members.
func (p past) rows(ctx context.Context, members []string) (found []tick.Tick, err error) {
	err = inBatches(members, func(members []string) error {
		a := p.newArgs(len(members))
		for _, m := range members {
			a = append(a, m)
		}
		r, err := p.run(ctx, "read ticks", rowsScript, a)
		found = append(found, parseTicks(r)...)
		return err
	})
	return found, err
}

// parseRuns leaves out what was pruned meanwhile.
func parseRuns(rows []reply) (found []run.Record) {
	for _, r := range rows {
		if rec := parseRun(r); rec.ID != "" {
			found = append(found, rec)
		}
	}
	return found
}

// hashes reads fields of several hashes in one round trip.
func (p past) hashes(ctx context.Context, kind string, ids, fields []string) ([]reply, error) {
	pipe := p.client.Pipeline()
	all := make([]*goredis.SliceCmd, len(ids))
	for i, id := range ids {
		all[i] = pipe.HMGet(ctx, p.prefix+kind+id, fields...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, p.wrap("read "+kind, err)
	}
	rows := make([]reply, len(ids))
	for i, c := range all {
		rows[i] = c.Val()
	}
	return rows, nil
}

func (p past) AppendRuns(ctx context.Context, runs []run.Record) error {
	runs = bounds.Of(runs)
	return inBatches(runs, func(runs []run.Record) error {
		a := p.newArgs(14 * len(runs))
		for _, r := range runs {
			a = append(a, runArgs(r)...)
		}
		_, err := p.run(ctx, "append runs", appendRunsScript, a)
		return err
	})
}

func (p past) AppendTicks(ctx context.Context, ticks []tick.Tick) error {
	ticks = bounds.Of(ticks)
	return inBatches(ticks, func(ticks []tick.Tick) error {
		a := p.newArgs(13 * len(ticks))
		for _, t := range ticks {
			a = append(a, t.Job, micros(t.At), micros(t.Through), t.Count, text(t.Claimant), t.RunID, string(t.Outcome), t.Reason,
				flag(t.Inferred), t.Reruns, micros(t.Claimed), micros(t.Started), micros(t.Ended))
		}
		_, err := p.run(ctx, "append ticks", appendTicksScript, a)
		return err
	})
}

// scored is the members of an index whose score lies in q's bounds, the highest first.
func (p past) scored(ctx context.Context, index string, q history.Query) ([]goredis.Z, error) {
	from, to := span(q)
	by := &goredis.ZRangeBy{Min: from, Max: to, Count: int64(q.Max())}
	found, err := p.client.ZRevRangeByScoreWithScores(ctx, p.prefix+index, by).Result()
	if err != nil {
		return nil, p.wrap("read "+index, err)
	}
	return found, nil
}

// bounds are q's, as those of scores.
func span(q history.Query) (from, to string) {
	from, to = "-inf", "+inf"
	if !q.From.IsZero() {
		from = strconv.FormatInt(micros(q.From), 10)
	}
	if !q.To.IsZero() {
		to = "(" + strconv.FormatInt(micros(q.To), 10)
	}
	return from, to
}

// newest is scored without the scores.
func (p past) newest(ctx context.Context, index string, q history.Query) ([]string, error) {
	found, err := p.scored(ctx, index, q)
	members := make([]string, len(found))
	for i, z := range found {
		members[i] = z.Member.(string)
	}
	return members, err
}

// of names an index, or that of one job.
func of(index, job string) string {
	if job == "" {
		return index
	}
	return index + ":" + job
}

func within(q history.Query, at time.Time) bool {
	return (q.From.IsZero() || !at.Before(q.From)) && (q.To.IsZero() || at.Before(q.To))
}
