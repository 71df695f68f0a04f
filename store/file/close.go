//go:build linux

package file

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Close fulfils tick.Store. The release follows the commit: if the process dies between the two,
// the kernel has released the lock already.
func (k *ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	answers := make([]tick.Answer, len(reqs))
	var rest []int
	for i, req := range reqs {
		done, err := k.closeInFile(ctx, req)
		if err != nil {
			return nil, err
		}
		answers[i] = tick.Answer{Status: tick.Won, Now: instantNow().time()}
		if !done {
			rest = append(rest, i)
		}
	}
	if len(rest) > 0 {
		if err := k.closeInDB(ctx, reqs, answers, rest); err != nil {
			return nil, err
		}
	}
	return answers, k.db.importIfLong(ctx)
}

func (k *ticks) closeInDB(ctx context.Context, reqs []tick.CloseRequest, answers []tick.Answer, which []int) error {
	for _, i := range which {
		if reqs[i].Run.Tick.IsZero() { // its start may still be in a lock file
			if err := k.db.catchUp(ctx); err != nil {
				return err
			}
			break
		}
	}
	err := writeEach(ctx, k.db, which, func(tx *sql.Tx, i int) (err error) {
		answers[i], err = k.close(ctx, tx, reqs[i])
		return err
	})
	if err != nil {
		return err
	}
	for _, i := range which {
		if err := k.release(ctx, reqs[i].Release, &answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// release frees a lease, only if it is still that hold's.
func (k *ticks) release(ctx context.Context, ref lease.Ref, a *tick.Answer) error {
	if ref.Owner == (lease.Nonce{}) {
		return nil
	}
	if _, err := k.db.leases.Release(ctx, []lease.Ref{ref}); err != nil {
		return err
	}
	if a.Tick.Lease == ref {
		a.Tick.Live = false
	}
	return nil
}

func (k *ticks) close(ctx context.Context, tx *sql.Tx, req tick.CloseRequest) (tick.Answer, error) {
	f, err := k.facts(ctx, tx, req.Run.Job, req.Run.Tick, lease.Ref{})
	if err == nil && req.Run.ID != "" {
		f.Run, err = known(ctx, tx, req.Run.ID)
	}
	if err != nil {
		return tick.Answer{}, err
	}
	return k.carryOut(ctx, tx, tick.JudgeClose(req, f), f, "")
}

func endOf(r run.Record) time.Time {
	if r.Ended.IsZero() {
		return instantNow().time()
	}
	return micro(r.Ended)
}

// closeInFile ends a run that is in its lock file: first a line in the journal, then the record without the run, and
// released if asked. If the process is killed in between, the line alone tells of the run.
func (k *ticks) closeInFile(ctx context.Context, req tick.CloseRequest) (done bool, err error) {
	ref, ok := k.fileOf(req)
	if !ok {
		return false, nil
	}
	_, err = k.db.leases.edit(ctx, ref, func(r *record, _ bool, _ instant) (lease.Status, error) {
		if r.Run == nil || r.Run.ID != req.Run.ID {
			return lease.Gone, nil
		}
		if err := k.db.leases.conclude(r, req.Run); err != nil {
			return lease.Gone, err
		}
		done = true
		r.Run = nil
		if req.Release == ref {
			r.release()
		}
		return lease.OK, nil
	})
	if err != nil || !done || req.Release == ref {
		return done, err
	}
	return true, k.release(ctx, req.Release, &tick.Answer{})
}

// fileOf finds the lease of a run without a tick: the request need not name it.
func (k *ticks) fileOf(req tick.CloseRequest) (lease.Ref, bool) {
	if req.Run.ID == "" || !req.Run.Tick.IsZero() {
		return lease.Ref{}, false
	}
	for _, ref := range []lease.Ref{req.Release, req.Claim} {
		if ref.Owner == req.Run.Owner && ref.Token == req.Run.Token {
			return ref, true
		}
	}
	return k.db.leases.byOwner(req.Run.Owner, req.Run.Token)
}
