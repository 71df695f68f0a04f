package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/dibs-run/dibs/history"
)

// Prune looks for old rows without locking anything, and then deletes them by their primary keys: a DELETE that
// searches would lock what others are about to write.
func (h told) Prune(ctx context.Context, before time.Time) (n int, more bool, err error) {
	us := micros(before)
	for _, part := range []func(context.Context, int64) (int, error){h.pruneTicks, h.pruneRuns, h.pruneEvents} {
		went, err := part(ctx, us)
		if err != nil {
			return n, more, fmt.Errorf("prune: %w", err)
		}
		n += went
		more = more || went == history.Step
	}
	went, err := h.forgetLeases(ctx)
	if err != nil {
		return n, more, fmt.Errorf("prune: %w", err)
	}
	return n, more || went == history.Step, nil // leases are no history, and not counted
}

// pageRows is how many rows one statement looks at for some that are wanted, where there is no telling how many others
// lie between them.
const pageRows = 1000

// An oldRow is one that pruning looks at: an instant and a name, by which they are ordered, and whether it may go.
type oldRow struct {
	at   int64
	name []byte
	goes bool
}

// sweep is one step of pruning one kind. It looks at a page behind the last one, and deletes the rows that may go, a
// Step at most. So old rows that have to stay are passed over step by step; after the last page the next step begins
// with the oldest.
func (h told) sweep(ctx context.Context, kind string, look func(from oldRow) *packet, drop func(old []oldRow) *packet) (int, error) {
	from, began := oldRow{at: math.MinInt64}, false
	err := h.run(ctx, new(packet).add("pruned", h.ns, kind), func(r *sql.Rows) error {
		began = true
		return r.Scan(&from.at, &from.name)
	})
	if err != nil {
		return 0, err
	}
	if from.name == nil {
		from.name = []byte{}
	}
	var page, old []oldRow
	if err = h.run(ctx, look(from), func(r *sql.Rows) error {
		var row oldRow
		err := r.Scan(&row.at, &row.name, &row.goes)
		if page = append(page, row); row.goes && len(old) < history.Step {
			old = append(old, row)
		}
		return err
	}); err != nil {
		return 0, err
	}
	if len(old) > 0 {
		if err := h.run(ctx, drop(old)); err != nil {
			return 0, err
		}
	}
	switch {
	case len(old) == history.Step:
		err = h.pruneFrom(ctx, kind, old[len(old)-1])
	case len(page) == pageRows:
		err = h.pruneFrom(ctx, kind, page[len(page)-1])
	case began:
		err = h.run(ctx, new(packet).add("prune-anew", h.ns, kind))
	}
	return len(old), err
}

func (h told) pruneFrom(ctx context.Context, kind string, row oldRow) error {
	return h.run(ctx, new(packet).add("prune-from", h.ns, kind, row.at, row.name))
}

func namesOfRows(old []oldRow) (all list) {
	for _, row := range old {
		all = append(all, row.name)
	}
	return all
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
	return h.sweep(ctx, "ticks", func(from oldRow) *packet {
		return new(packet).add("old-ticks", before, h.ns, before, from.at, from.at, from.name, pageRows)
	}, func(old []oldRow) *packet {
		var where spots
		for _, row := range old {
			where = append(where, spot{string(row.name), row.at})
		}
		return new(packet).add("prune-ticks", h.ns, where)
	})
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

// pruneRuns deletes runs with what they printed.
func (h told) pruneRuns(ctx context.Context, before int64) (int, error) {
	return h.sweep(ctx, "runs", func(from oldRow) *packet {
		return new(packet).add("old-runs", before, h.ns, before, from.at, from.at, from.name, pageRows)
	}, func(old []oldRow) *packet {
		ids := namesOfRows(old)
		return new(packet).add("begin").add("prune-outputs", h.ns, ids).add("prune-runs", h.ns, ids, before).add("commit")
	})
}

// forgetLeases deletes free records that nobody used for long (rule L10).
func (h told) forgetLeases(ctx context.Context) (int, error) {
	return h.sweep(ctx, "leases", func(from oldRow) *packet {
		return new(packet).add("clock").add("unused", with("is-unused"), h.ns, from.name, pageRows)
	}, func(old []oldRow) *packet {
		return new(packet).add("clock").add("forget", h.ns, namesOfRows(old), with("is-unused"))
	})
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
