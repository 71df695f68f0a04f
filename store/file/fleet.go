//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"time"

	"github.com/dibs-run/dibs/fleet"
)

var (
	//go:embed queries/process_put.sql
	sqlProcessPut string
	//go:embed queries/processes_ends.sql
	sqlProcessesEnds string
	//go:embed queries/processes_forget.sql
	sqlProcessesForget string
	//go:embed queries/processes.sql
	sqlProcesses string
)

// processes fulfils fleet.Store.
type processes struct{ db *db }

// Report fulfils fleet.Store.
func (f processes) Report(ctx context.Context, p fleet.Process) error {
	return f.db.write(ctx, func(tx *sql.Tx) error {
		now := instantNow().time()
		if _, err := tx.ExecContext(ctx, sqlProcessPut, p.ID.String(), micros(p.Seen), micros(now), p.Record()); err != nil {
			return err
		}
		type ends struct{ oldest, crowded int64 }
		e, _, err := one(ctx, tx, func(row scanner) (e ends, err error) { return e, row.Scan(&e.oldest, &e.crowded) }, sqlProcessesEnds, fleet.Crowd)
		if err != nil {
			return err
		}
		if before, some := fleet.Forget(now, instantOf(e.oldest), instantOf(e.crowded)); some {
			_, err = tx.ExecContext(ctx, sqlProcessesForget, micros(before), fleet.Step)
		}
		return err
	})
}

// Processes fulfils fleet.Store.
func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	kept, err := ask(ctx, f.db, func(row scanner) (p fleet.Process, err error) {
		var (
			seen   int64
			record []byte
		)
		if err = row.Scan(&seen, &record); err == nil {
			p = fleet.Parse(record, instantOf(seen))
		}
		return p, err
	}, sqlProcesses, fleet.Most)
	now = instantNow().time()
	return fleet.Readable(kept, now), now, err
}
