package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Prune looks for old rows without locking anything and then deletes them by their primary keys,
// a few hundred at a time: a long DELETE would lock what others are about to write.
func (h told) Prune(ctx context.Context, before time.Time) (n int, err error) {
	us := micros(before)
	for _, part := range []func(context.Context, int64) (int, error){h.pruneTicks, h.pruneRuns, h.pruneEvents, h.forgetLeases} {
		for {
			went, err := part(ctx, us)
			if err != nil {
				return n, fmt.Errorf("prune: %w", err)
			}
			if n += went; went == 0 {
				break
			}
		}
	}
	return n, nil
}

func (h told) pruneTicks(ctx context.Context, before int64) (int, error) {
	var old rows
	err := h.run(ctx, new(packet).add("old-ticks", h.ns, before, before), readPair(&old))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), h.run(ctx, new(packet).add("prune-ticks", h.ns, old))
}

func (h told) pruneEvents(ctx context.Context, before int64) (int, error) {
	var old rows
	err := h.run(ctx, new(packet).add("old-events", h.ns, before), func(r *sql.Rows) error {
		var at int64
		var id []byte
		err := r.Scan(&at, &id)
		old = append(old, []any{at, id})
		return err
	})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), h.run(ctx, new(packet).add("prune-events", h.ns, old))
}

func readPair(to *rows) reader {
	return func(r *sql.Rows) error {
		var job []byte
		var at int64
		err := r.Scan(&job, &at)
		*to = append(*to, []any{job, at})
		return err
	}
}

// pruneRuns deletes runs with what they printed.
func (h told) pruneRuns(ctx context.Context, before int64) (int, error) {
	old, err := h.names(ctx, new(packet).add("old-runs", h.ns, before))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), h.run(ctx, new(packet).add("begin").add("prune-outputs", h.ns, old).add("prune-runs", h.ns, old, before).add("commit"))
}

// forgetLeases deletes free records that nobody used for 30 days (rule L10). They are no history
// and are not counted, so it goes round by itself.
func (h told) forgetLeases(ctx context.Context, _ int64) (int, error) {
	for {
		old, err := h.names(ctx, new(packet).add("clock").add("unused", h.ns))
		if err != nil || len(old) == 0 {
			return 0, err
		}
		if err := h.run(ctx, new(packet).add("clock").add("forget", h.ns, old)); err != nil {
			return 0, err
		}
	}
}

func (h told) names(ctx context.Context, p *packet) (found list, err error) {
	err = h.run(ctx, p, func(r *sql.Rows) error {
		var name []byte
		err := r.Scan(&name)
		found = append(found, name)
		return err
	})
	return found, err
}
