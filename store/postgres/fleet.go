package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/fleet"
)

// processes is the fleet.Store of one namespace.
type processes struct {
	db *db
	ns string
}

// Report keeps a record, and deletes old ones in an operation of its own: see sql/fleet.sql.
func (f processes) Report(ctx context.Context, p fleet.Process) error {
	var now, oldest, crowded int64
	err := f.db.run(ctx, "report a process",
		do(sqlFleet()[0], f.ns, p.ID.String(), p.Record(), micros(p.Seen)).each(func(rows pgx.Rows) error { return rows.Scan(&now) }),
		do(sqlFleet()[1], f.ns, fleet.Crowd).each(func(rows pgx.Rows) error { return rows.Scan(&oldest, &crowded) }))
	if err != nil {
		return err
	}
	if before, some := fleet.Forget(instant(now), instant(oldest), instant(crowded)); some {
		// The record is kept, whatever becomes of old ones: the next report tries again.
		_ = f.db.run(ctx, "forget processes", do(sqlFleet()[2], f.ns, micros(before), fleet.Step))
	}
	return nil
}

// Processes reads a page of processes.
func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	err = f.db.run(ctx, "list processes", do(sqlFleet()[3], f.ns, fleet.Most).each(func(rows pgx.Rows) error {
		var at int64
		var record []byte
		err := rows.Scan(&at, &record)
		if record == nil {
			now = instant(at)
		} else {
			all = append(all, fleet.Parse(record, instant(at)))
		}
		return err
	}))
	return fleet.Readable(all, now), now, err
}
