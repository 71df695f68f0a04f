package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
)

// Prune looks for old rows without locking anything and then deletes them by their primary keys: a DELETE that looks
// would lock what others are about to write.
func (h told) Prune(ctx context.Context, before time.Time) (n int, more bool, err error) {
	us := micros(before)
	for _, part := range []func(context.Context, int64) (int, error){h.pruneTicks, h.pruneRuns, h.pruneEvents, h.forgetLeases} {
		went, err := part(ctx, us)
		if err != nil {
			return n, more, fmt.Errorf("prune: %w", err)
		}
		n += went
		more = more || went == history.Step
	}
	return n, more, nil
}

func (h told) PruneOutputs(ctx context.Context, job string, keep int) (int, error) {
	old, err := h.names(ctx, new(packet).add("outputs-beyond", h.ns, []byte(job), history.Step, keep))
	if err == nil && len(old) > 0 {
		err = h.run(ctx, new(packet).add("prune-outputs", h.ns, old))
	}
	if err != nil {
		return 0, fmt.Errorf("prune outputs: %w", err)
	}
	return len(old), nil
}

func (h told) pruneTicks(ctx context.Context, before int64) (int, error) {
	var old spots
	err := h.run(ctx, new(packet).add("old-ticks", h.ns, before, before, history.Step), readSpot(&old))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), h.run(ctx, new(packet).add("prune-ticks", h.ns, old))
}

func (h told) pruneEvents(ctx context.Context, before int64) (int, error) {
	var old rows
	err := h.run(ctx, new(packet).add("old-events", h.ns, before, history.Step), func(r *sql.Rows) error {
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

func readSpot(to *spots) reader {
	return func(r *sql.Rows) error {
		var s spot
		err := r.Scan(&s.job, &s.at)
		*to = append(*to, s)
		return err
	}
}

// pruneRuns deletes runs with what they printed.
func (h told) pruneRuns(ctx context.Context, before int64) (int, error) {
	old, err := h.names(ctx, new(packet).add("old-runs", h.ns, before, before, history.Step))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), h.run(ctx, new(packet).add("begin").add("prune-outputs", h.ns, old).add("prune-runs", h.ns, old, before).add("commit"))
}

// forgetLeases deletes free records that nobody used for 30 days (rule L10). They are no history and are not counted.
func (h told) forgetLeases(ctx context.Context, _ int64) (int, error) {
	old, err := h.names(ctx, new(packet).add("clock").add("unused", h.ns))
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return 0, h.run(ctx, new(packet).add("clock").add("forget", h.ns, old))
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
