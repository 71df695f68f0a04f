//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks fulfils tick.Store. A writing transaction has the database to itself, so that each
// decision is made in Go between reading and writing a row. Whether leases live is asked of
// their files inside it.
type ticks struct{ db *db }

var (
	//go:embed queries/ticks_unfinished.sql
	sqlTicksUnfinished string
	//go:embed queries/ticks_owed.sql
	sqlTicksOwed string
)

// Claim fulfils tick.Store.
func (k *ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) (answers []tick.Answer, err error) {
	err = writeEach(ctx, k.db, reqs, func(tx *sql.Tx, req tick.ClaimRequest) error {
		a, err := k.claim(ctx, tx, req)
		answers = append(answers, a)
		return err
	})
	return answers, err
}

func (k *ticks) claim(ctx context.Context, tx *sql.Tx, req tick.ClaimRequest) (tick.Answer, error) {
	now := instantNow()
	row, found, err := getTick(ctx, tx, req.Job, micros(req.At))
	if err != nil {
		return tick.Answer{}, err
	}
	job, registered, err := getJob(ctx, tx, req.Job)
	if err != nil {
		return tick.Answer{}, err
	}
	switch {
	case found && row.Lease == req.Lease && row.RunID == "" && row.Outcome == req.Outcome:
		return k.answer(tick.Won, row) // the answer to its first request was lost
	case now.past(req.NotAfter):
		return k.answer(tick.Late, row)
	case found:
		return k.answer(tick.Taken, row)
	case registered && !req.Fill && !req.At.After(job.Mark):
		return k.answer(tick.Settled, row)
	case req.Generation != 0 && (job.Generation != req.Generation || !job.Removed.IsZero()):
		return k.answer(tick.Differs, row)
	case req.At.After(now.time().Add(req.Ahead)):
		return k.answer(tick.Early, row)
	case req.Outcome == "" && job.Pause.Stops(req.At, now.time()):
		return k.answer(tick.Paused, row)
	}
	if live, err := k.db.leases.alive(req.Lease); err != nil || !live {
		return tick.Answer{Status: tick.Lapsed, Now: now.time()}, err
	}
	row = claimed(req, now.time())
	if err := putTick(ctx, tx, sqlTickInsert, row); err != nil {
		return tick.Answer{}, err
	}
	return k.answer(tick.Won, row)
}

func claimed(req tick.ClaimRequest, now time.Time) tick.Tick {
	t := tick.Tick{Job: req.Job, At: micro(req.At), State: tick.Claimed, Lease: req.Lease, Claimant: req.Claimant, Claimed: now}
	if req.Outcome != "" {
		t.State, t.Outcome, t.Reason, t.Ended = tick.Closed, req.Outcome, req.Reason, now
	}
	return t
}

// answer shows a row as it stands, with whether its lease lives.
func (k *ticks) answer(s tick.Status, t tick.Tick) (_ tick.Answer, err error) {
	t.Live, err = k.db.leases.alive(t.Lease)
	return tick.Answer{Status: s, Tick: t, Now: instantNow().time()}, err
}

// Take fulfils tick.Store.
func (k *ticks) Take(ctx context.Context, req tick.TakeRequest) (a tick.Answer, err error) {
	err = k.db.write(ctx, func(tx *sql.Tx) error {
		row, found, err := getTick(ctx, tx, req.Job, micros(req.At))
		if err != nil {
			return err
		}
		status, err := k.mayTake(req, row, found)
		if err == nil && status == tick.Won && !(row.State == tick.Claimed && row.Lease == req.Lease) {
			row, err = k.take(ctx, tx, req, row)
		}
		if err == nil {
			a, err = k.answer(status, row)
		}
		return err
	})
	return a, err
}

func (k *ticks) mayTake(req tick.TakeRequest, row tick.Tick, found bool) (tick.Status, error) {
	live, err := k.db.leases.alive(row.Lease)
	if err != nil {
		return 0, err
	}
	mine, err := k.db.leases.alive(req.Lease)
	switch {
	case err != nil:
		return 0, err
	case found && row.State == tick.Claimed && row.Lease == req.Lease:
		return tick.Won, nil // repeated
	case instantNow().past(req.NotAfter):
		return tick.Late, nil
	case !found || row.Lease != req.From || !takeable(row, req, live):
		return tick.Taken, nil
	case !mine:
		return tick.Lapsed, nil
	}
	return tick.Won, nil
}

// takeable is rule T2 for a claim that started nothing, rule T3 for what may be run again, and rule
// T4 for what never ran.
func takeable(row tick.Tick, req tick.TakeRequest, live bool) bool {
	switch {
	case req.Fill:
		return row.Fillable()
	case row.State == tick.Claimed:
		return !req.Rerun && !live
	case row.State == tick.Started:
		return req.Rerun && !live
	}
	return req.Rerun && (row.Outcome == run.Lost || row.Outcome == run.Crashed || row.Outcome == run.Canceled)
}

// take hands the row over. It forgets its run: what that still reports concerns the run alone.
func (k *ticks) take(ctx context.Context, tx *sql.Tx, req tick.TakeRequest, row tick.Tick) (tick.Tick, error) {
	now := instantNow()
	if row.State == tick.Started {
		old, found, err := getRun(ctx, tx, row.RunID)
		if err == nil && found {
			r := crashed(old.Record, now)
			r.Reason = "" // that it is nobody's conclusion tells it from one
			err = closeRun(ctx, tx, r)
		}
		if err != nil {
			return row, err
		}
	}
	next := tick.Tick{Job: row.Job, At: row.At, State: tick.Claimed, Lease: req.Lease,
		Claimant: req.Claimant, Claimed: now.time(), Reruns: row.Reruns}
	if req.Rerun {
		next.Reruns++
	}
	return next, putTick(ctx, tx, sqlTickUpdate, next)
}

// Orphans fulfils tick.Store. Leases are asked after the rows are read: one that is found dead
// then was not live when the row named it, or has died since.
func (k *ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := l.Range()
	rows, err := ask(ctx, k.db, readTick, sqlTicksUnfinished, from, to, l.After.Job, l.AfterAt(), l.Max())
	if err != nil {
		return tick.Found{}, err
	}
	known := map[lease.Ref]bool{}
	for i := range rows {
		t := &rows[i]
		live, asked := known[t.Lease]
		if !asked {
			if live, err = k.db.leases.alive(t.Lease); err != nil {
				return tick.Found{}, err
			}
			known[t.Lease] = live
		}
		t.Live = live
	}
	return tick.Ended(rows, l.Max(), tick.Dead), nil
}

// Owed fulfils tick.Store.
func (k *ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	rows, err := ask(ctx, k.db, readTick, sqlTicksOwed, l.App+"/", micros(l.From), l.AfterAt(), l.After.Job, l.Max())
	return tick.Ended(rows, l.Max(), tick.Tick.Owed), err
}
