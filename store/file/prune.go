//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"math"
	"time"

	"github.com/dibs-run/dibs/history"
)

var (
	//go:embed queries/prune_ticks.sql
	sqlPruneTicks string
	//go:embed queries/prune_runs.sql
	sqlPruneRuns string
	//go:embed queries/output_delete.sql
	sqlOutputDelete string
	//go:embed queries/run_delete.sql
	sqlRunDelete string
	//go:embed queries/turn_get.sql
	sqlTurnGet string
	//go:embed queries/turn_put.sql
	sqlTurnPut string
)

// prunedLook is how many rows a step looks at to find those that may go. Rows that must stay, such as ticks of an
// application that is gone and never ended them, delay the rows behind them by no more than that.
const prunedLook = 10 * history.Step

// Prune fulfils history.Store.
func (h *histories) Prune(ctx context.Context, before time.Time) (n int, more bool, err error) {
	if err := h.db.catchUp(ctx); err != nil {
		return 0, false, err
	}
	err = h.db.write(ctx, func(tx *sql.Tx) error {
		p := pruning{ctx: ctx, tx: tx, before: ceil(before)}
		if err := p.kind("ticks", sqlPruneTicks, p.dropTick); err != nil {
			return err
		}
		if err := p.kind("runs", sqlPruneRuns, p.dropRun); err != nil {
			return err
		}
		gone, err := changed(tx.ExecContext(ctx, sqlPruneEvents, p.before, history.Step))
		n, more = p.gone+gone, p.more || gone == history.Step
		return err
	})
	return n, more, err
}

// pruning is one step of it.
type pruning struct {
	ctx    context.Context
	tx     *sql.Tx
	before int64
	gone   int
	more   bool
}

// A place in an order by instant and name, and whether what is there may go.
type pruned struct {
	at   int64
	name string
	goes bool
}

// kind goes on behind the last step's end, and drops the rows that may go. When it comes to the end, the next step
// begins anew.
func (p *pruning) kind(what, text string, drop func(pruned) error) error {
	from, found, err := one(p.ctx, p.tx, func(row scanner) (x pruned, err error) { return x, row.Scan(&x.at, &x.name) }, sqlTurnGet, what)
	if err != nil {
		return err
	}
	if !found {
		from.at = math.MinInt64
	}
	read := func(row scanner) (x pruned, err error) { return x, row.Scan(&x.at, &x.name, &x.goes) }
	all, err := query(p.ctx, p.tx, read, text, p.before, from.at, from.name, prunedLook)
	if err != nil {
		return err
	}
	end, gone := pruned{at: math.MinInt64}, 0
	for _, x := range all {
		if x.goes {
			if err := drop(x); err != nil {
				return err
			}
			gone++
		}
		if gone == history.Step {
			end = x
			break
		}
	}
	if gone < history.Step && len(all) == prunedLook {
		end = all[prunedLook-1]
	}
	p.gone, p.more = p.gone+gone, p.more || end.at != math.MinInt64
	if end.at == from.at && end.name == from.name {
		return nil
	}
	_, err = p.tx.ExecContext(p.ctx, sqlTurnPut, what, end.at, end.name)
	return err
}

func (p *pruning) dropTick(x pruned) error {
	_, err := p.tx.ExecContext(p.ctx, sqlTickDelete, x.name, x.at)
	return err
}

func (p *pruning) dropRun(x pruned) error {
	if _, err := p.tx.ExecContext(p.ctx, sqlOutputDelete, x.name); err != nil {
		return err
	}
	_, err := p.tx.ExecContext(p.ctx, sqlRunDelete, x.name)
	return err
}
