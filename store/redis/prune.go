package redis

import (
	"context"
	"time"
)

// keepFree is how long the record of a free lease is kept at least, for its token (rule L10).
const keepFree = 30 * 24 * time.Hour

// Prune deletes in pages, each of which is one script: it can be interrupted and goes on the next
// time. Records of leases that were free for long go as well; they are not counted, being no history.
func (p past) Prune(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for _, kind := range []string{"ticks", "runs", "events"} {
		n, err := p.pruneKind(ctx, kind, before)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, p.forgetLeases(ctx, before)
}

func (p past) pruneKind(ctx context.Context, kind string, before time.Time) (total int, err error) {
	pass := int64(0)
	for {
		r, err := p.run(ctx, "prune "+kind, pruneScript, append(p.newArgs(4), kind, micros(before), pass, maxBatch))
		if err != nil {
			return total, err
		}
		gone, stay := r.int(0), r.int(1)
		total += int(gone)
		if gone+stay < maxBatch {
			return total, nil
		}
		pass += stay
	}
}

func (p past) forgetLeases(ctx context.Context, before time.Time) error {
	from, to := lexRange("")
	for {
		r, err := p.run(ctx, "list", listScript, append(p.newArgs(4), from, to, maxBatch, flag(true)))
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
		if _, err := p.run(ctx, "prune leases", forgetScript, a); err != nil {
			return err
		}
		if r.int(1) < maxBatch {
			return nil
		}
		from = "(" + r.text(2)
	}
}
