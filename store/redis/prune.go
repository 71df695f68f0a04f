package redis

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/history"
)

// keepFree is how long the record of a free lease is kept at least, for its token (rule L10).
const keepFree = 30 * 24 * time.Hour

// Prune takes one script for each kind. It also deletes records of leases that were free for long; these are not
// counted, being no history.
func (p past) Prune(ctx context.Context, before time.Time) (total int, more bool, err error) {
	for _, kind := range []string{"ticks", "runs", "events"} {
		n, full, err := p.pruneKind(ctx, kind, before)
		total += n
		more = more || full
		if err != nil {
			return total, more, err
		}
	}
	return total, more, p.forgetLeases(ctx, before)
}

func (p past) pruneKind(ctx context.Context, kind string, before time.Time) (gone int, more bool, err error) {
	r, err := p.run(ctx, "prune "+kind, pruneScript, append(p.newArgs(3), kind, micros(before), history.Step))
	return int(r.int(0)), r.int(1) == 1, err
}

func (p past) PruneOutputs(ctx context.Context, job string, keep int) (int, error) {
	ids, err := p.client.ZRevRange(ctx, p.prefix+of("runs", job), int64(keep), int64(keep+history.Step-1)).Result()
	if err != nil || len(ids) == 0 || job == "" {
		return 0, p.wrapped("prune outputs", err)
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = p.prefix + "output:" + id
	}
	n, err := p.client.Unlink(ctx, names...).Result()
	return int(n), p.wrapped("prune outputs", err)
}

func (p past) wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return p.wrap(what, err)
}

// forgetLeases looks at one page of leases, from a random place on: in time it looks at all.
func (p past) forgetLeases(ctx context.Context, before time.Time) error {
	some, err := p.client.ZRandMember(ctx, p.prefix+"leases", 1).Result()
	if err != nil || len(some) == 0 {
		return p.wrapped("prune leases", err)
	}
	_, to := lexRange("")
	r, err := p.run(ctx, "list", listScript, append(p.newArgs(4), "["+some[0], to, history.Step, flag(true)))
	if err != nil {
		return err
	}
	if limit := r.time(0).Add(-keepFree); limit.Before(before) {
		before = limit
	}
	a := append(p.newArgs(1+len(r)), micros(before))
	for i := 3; i < len(r); i++ {
		a = append(a, r.list(i).text(0))
	}
	_, err = p.run(ctx, "prune leases", forgetScript, a)
	return err
}
