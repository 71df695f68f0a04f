package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/fleet"
)

// processes is fleet.Store.
type processes struct{ *database }

// Report keeps the record in a statement of its own, and deletes old ones by their primary keys: it holds no lock
// while it waits for another.
func (f processes) Report(ctx context.Context, p fleet.Process) error {
	var now, oldest, crowded int64
	report := new(packet).add("clock").add("report", f.ns, []byte(p.ID.String()), micros(p.Seen), micros(p.Seen), p.Record()).add("processes-ends", f.ns, f.ns, fleet.Crowd)
	err := f.run(ctx, report, func(r *sql.Rows) error { return r.Scan(&now, &oldest, &crowded) })
	if err != nil {
		return fmt.Errorf("report a process: %w", err)
	}
	if before, some := fleet.Forget(instant(now), instant(oldest), instant(crowded)); some {
		_ = f.forget(ctx, micros(before)) // the record is kept, whatever becomes of old ones: the next report tries again
	}
	return nil
}

func (f processes) forget(ctx context.Context, before int64) error {
	old, err := told(f).names(ctx, new(packet).add("old-processes", f.ns, before, fleet.Step))
	if err != nil || len(old) == 0 {
		return err
	}
	return f.run(ctx, new(packet).add("forget-processes", f.ns, old, before))
}

func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	var us int64
	err = f.run(ctx, new(packet).add("clock").add("now").add("processes", f.ns, fleet.Most),
		func(r *sql.Rows) error { return r.Scan(&us) },
		func(r *sql.Rows) error {
			var seen int64
			var record []byte
			err := r.Scan(&seen, &record)
			all = append(all, fleet.Parse(record, instant(seen)))
			return err
		})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list processes: %w", err)
	}
	return fleet.Readable(all, instant(us)), instant(us), nil
}
