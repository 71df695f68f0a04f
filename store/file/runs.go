//go:build linux

package file

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Start fulfils tick.Store. A run without a tick is written into the lock file under which it
// lives, and needs no database. All others share one transaction, and one sync to the disk.
func (k *ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	answers, open := make([]tick.Answer, len(reqs)), make([]bool, len(reqs))
	var rest []int
	for i, req := range reqs {
		done := false
		if open[i] = true; req.Run.Tick.IsZero() {
			// A gate cannot pass to others between this look and the start: while this process is stopped it keeps the lock.
			var err error
			if open[i], err = k.gateOpen(req); err != nil {
				return nil, err
			}
			if answers[i], done, err = k.startInFile(ctx, req, open[i]); err != nil {
				return nil, err
			}
		}
		if !done {
			rest = append(rest, i)
		}
	}
	if len(rest) == 0 {
		return answers, nil
	}
	return answers, writeEach(ctx, k.db, rest, func(tx *sql.Tx, i int) (err error) {
		answers[i], err = k.startInDB(ctx, tx, reqs[i], open[i])
		return err
	})
}

func (k *ticks) startInDB(ctx context.Context, tx *sql.Tx, req tick.StartRequest, open bool) (tick.Answer, error) {
	row, found, err := getTick(ctx, tx, req.Run.Job, micros(req.Run.Tick))
	if err != nil {
		return tick.Answer{}, err
	}
	status, fresh, err := k.mayStart(ctx, tx, req, row, found, open)
	if err == nil && fresh {
		row, err = k.start(ctx, tx, req, row)
	}
	if err != nil {
		return tick.Answer{}, err
	}
	return k.answer(status, row)
}

// gateOpen says whether the lease that a run without a tick stands on, beside its own, is live.
func (k *ticks) gateOpen(req tick.StartRequest) (bool, error) {
	if req.Claim == (lease.Ref{}) {
		return true, nil
	}
	return k.db.leases.alive(req.Claim)
}

func (k *ticks) mayStart(
	ctx context.Context, tx *sql.Tx, req tick.StartRequest, row tick.Tick, found, open bool,
) (s tick.Status, fresh bool, err error) {
	old, repeated, err := getRun(ctx, tx, req.Run.ID)
	if err != nil {
		return 0, false, err
	}
	ticked := !req.Run.Tick.IsZero()
	live, err := k.db.leases.alive(req.Lease)
	switch {
	case err != nil:
		return 0, false, err
	case repeated && old.Outcome == "" && old.Owner == req.Lease.Owner && old.Token == req.Lease.Token:
		return tick.Won, false, nil
	case instantNow().past(req.NotAfter):
		return tick.Late, false, nil
	case repeated, ticked && (!found || row.State != tick.Claimed || row.Lease != req.Claim):
		return tick.Taken, false, nil
	case !live, !open:
		return tick.Lapsed, false, nil
	}
	return tick.Won, true, nil
}

func (k *ticks) start(ctx context.Context, tx *sql.Tx, req tick.StartRequest, row tick.Tick) (tick.Tick, error) {
	now := instantNow().time()
	if err := insertRun(ctx, tx, runRow{begun(req, now), req.Lease.Key}); err != nil || req.Run.Tick.IsZero() {
		return row, err
	}
	row.State, row.Lease, row.RunID, row.Started = tick.Started, req.Lease, req.Run.ID, now
	return row, putTick(ctx, tx, sqlTickUpdate, row)
}

// begun is the run as it is recorded at its start.
func begun(req tick.StartRequest, now time.Time) run.Record {
	r := req.Run
	r.Owner, r.Token = req.Lease.Owner, req.Lease.Token
	r.Outcome, r.Reason, r.Inferred, r.Ended = "", "", false, time.Time{}
	if r.Started.IsZero() {
		r.Started = now
	}
	r.Tick, r.Started = micro(r.Tick), micro(r.Started)
	return r
}

// startInFile writes the run into its lock file, unless its gate is closed or another run of the same lease is
// there already: a second one goes to the database.
func (k *ticks) startInFile(
	ctx context.Context, req tick.StartRequest, open bool,
) (a tick.Answer, done bool, err error) {
	a.Now = instantNow().time()
	_, err = k.db.leases.edit(ctx, req.Lease, func(r *record, held bool, now instant) (lease.Status, error) {
		a.Now = now.time()
		switch {
		case r.Run != nil && r.Run.ID == req.Run.ID:
			a.Status, done = tick.Won, true // repeated, unless it has ended
			if r.Run.Outcome != "" {
				a.Status = tick.Taken
			}
		case now.past(req.NotAfter):
			a.Status, done = tick.Late, true
		case !open:
			a.Status, done = tick.Lapsed, true
		case r.Run == nil && held && !r.released():
			a.Status, done = tick.Won, true
			begun := begun(req, now.time())
			r.Run = &begun
			return lease.OK, nil
		}
		return lease.Gone, nil
	})
	return a, done, err
}
