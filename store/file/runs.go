//go:build linux

package file

import (
	"context"
	"database/sql"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// Start fulfils tick.Store. A run without a tick is written into the lock file under which it
// lives, and needs no database. All others share one transaction, and one sync to the disk.
func (k *ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	answers, open := make([]tick.Answer, len(reqs)), make([]bool, len(reqs))
	var rest []int
	for i, req := range reqs {
		done := false
		if open[i] = true; req.Run.Tick.IsZero() {
			// The gate cannot change hands between this check and the start: while this process is stopped it keeps
			// the lock.
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
	f, err := k.facts(ctx, tx, req.Run.Job, req.Run.Tick, req.Lease)
	if err == nil {
		f.Run, err = known(ctx, tx, req.Run.ID)
	}
	if err != nil {
		return tick.Answer{}, err
	}
	f.Gate = open
	return k.carryOut(ctx, tx, tick.JudgeStart(req, f), f, req.Lease.Key)
}

// gateOpen says whether the second lease is live on which a run without a tick relies.
func (k *ticks) gateOpen(req tick.StartRequest) (bool, error) {
	if req.Claim == (lease.Ref{}) {
		return true, nil
	}
	return k.db.leases.alive(req.Claim)
}

// startInFile writes the run into its lock file, unless another run of the same lease is there already: a second one
// goes to the database, be it late or behind a closed gate, since its start may be a repeated one.
func (k *ticks) startInFile(
	ctx context.Context, req tick.StartRequest, open bool,
) (a tick.Answer, done bool, err error) {
	a.Now = instantNow().time()
	_, err = k.db.leases.edit(ctx, req.Lease, func(r *record, held bool, now instant) (lease.Status, error) {
		f := tick.Facts{Now: now.time(), Live: held && !r.released(), Gate: open}
		here := r.Run != nil && r.Run.ID == req.Run.ID
		if here {
			f.Run = *r.Run
		}
		v := tick.JudgeStart(req, f)
		a.Status, a.Now = v.Status, f.Now
		if v.Run != nil && r.Run == nil {
			r.Run, done = v.Run, true
			return lease.OK, nil
		}
		done = here || r.Run == nil && (v.Status == tick.Late || !open)
		return lease.Gone, nil
	})
	return a, done, err
}
