//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"math"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// ticks fulfils tick.Store. A writing transaction has the database to itself, so each decision is made in Go between
// reading and writing a row. Inside the transaction, the lock files say whether leases live.
type ticks struct{ db *db }

var (
	//go:embed queries/ticks_unfinished.sql
	sqlTicksUnfinished string
	//go:embed queries/ticks_owed.sql
	sqlTicksOwed string
)

// Claim fulfils tick.Store.
func (k *ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) (answers []tick.Answer, err error) {
	reqs = bounds.Of(reqs)
	err = writeEach(ctx, k.db, reqs, func(tx *sql.Tx, req tick.ClaimRequest) error {
		a, err := k.claim(ctx, tx, req)
		answers = append(answers, a)
		return err
	})
	return answers, err
}

func (k *ticks) claim(ctx context.Context, tx *sql.Tx, req tick.ClaimRequest) (tick.Answer, error) {
	f, err := k.facts(ctx, tx, req.Job, req.At, req.Lease)
	if err == nil {
		f.Job, _, err = getJob(ctx, tx, req.Job)
	}
	if err != nil {
		return tick.Answer{}, err
	}
	return k.carryOut(ctx, tx, tick.JudgeClaim(req, f), f, "")
}

// facts are what tick's rules judge by: of the row, with whether its lease lives, and of the lease that the request
// stands on.
func (k *ticks) facts(ctx context.Context, tx *sql.Tx, job string, at time.Time, on lease.Ref) (f tick.Facts, err error) {
	if f.Tick, _, err = getTick(ctx, tx, job, micros(at)); err == nil {
		f.Tick.Live, err = k.db.leases.alive(f.Tick.Lease)
	}
	if f.Live = f.Tick.Live; err == nil && on != f.Tick.Lease {
		f.Live, err = k.db.leases.alive(on)
	}
	f.Now = instantNow().time()
	return f, err
}

// carryOut writes what a verdict on facts says, and answers with the row as it then stands. A new run keeps the key
// of its lease.
func (k *ticks) carryOut(ctx context.Context, tx *sql.Tx, v tick.Verdict, f tick.Facts, key lease.Key) (_ tick.Answer, err error) {
	row := f.Tick
	switch {
	case v.Run == nil:
	case f.Run.ID == "":
		err = insertRun(ctx, tx, runRow{Record: *v.Run, key: key})
	default:
		err = closeRun(ctx, tx, *v.Run)
	}
	if err == nil && v.Tick != nil {
		row = *v.Tick
		statement := sqlTickUpdate
		if f.Tick.State == "" {
			statement = sqlTickInsert
		}
		err = putTick(ctx, tx, statement, row)
	}
	return tick.Answer{Status: v.Status, Tick: row, Now: f.Now}, err
}

// Take fulfils tick.Store.
func (k *ticks) Take(ctx context.Context, req tick.TakeRequest) (a tick.Answer, err error) {
	req = bounds.Of(req)
	err = k.db.write(ctx, func(tx *sql.Tx) error {
		f, err := k.facts(ctx, tx, req.Job, req.At, req.Lease)
		if err == nil && f.Tick.State == tick.Started {
			f.Run, err = known(ctx, tx, f.Tick.RunID)
		}
		if err == nil {
			a, err = k.carryOut(ctx, tx, tick.JudgeTake(req, f), f, "")
		}
		return err
	})
	return a, err
}

// Orphans fulfils tick.Store. The leases are checked after the rows are read: a lease that is found dead then was not
// live when the row named it, or has died since.
func (k *ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := l.Range()
	after := l.AfterAt()
	if l.After.Job < from {
		after = math.MinInt64
	}
	rows, err := ask(ctx, k.db, readTick, sqlTicksUnfinished, max(l.After.Job, from), after, to, l.Max())
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
	return tick.Ended(rows, l.Max(), tick.Tick.Orphaned), nil
}

// Owed fulfils tick.Store.
func (k *ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	rows, err := ask(ctx, k.db, readTick, sqlTicksOwed, l.App+"/", micros(l.From), l.AfterAt(), l.After.Job, l.Max())
	return tick.Ended(rows, l.Max(), tick.Tick.Owed), err
}
