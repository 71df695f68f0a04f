package postgres

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// tickRow scans the columns of a tick, which are null where there is none.
type tickRow struct {
	job, leaseKey                                       []byte
	at, through, leaseToken, claimed, started, ended    *int64
	count, reruns                                       *int
	state, leaseOwner, claimant, runID, outcome, reason *string
	inferred, live                                      *bool
}

// scan reads a row whose last columns are a tick's, after those of into.
func (t *tickRow) scan(rows pgx.Rows, into ...any) (tick.Tick, bool, error) {
	err := rows.Scan(append(into, &t.job, &t.at, &t.through, &t.count, &t.state, &t.leaseKey, &t.leaseOwner,
		&t.leaseToken, &t.claimant, &t.runID, &t.outcome, &t.reason, &t.inferred, &t.reruns, &t.claimed,
		&t.started, &t.ended, &t.live)...)
	if err != nil || t.at == nil {
		return tick.Tick{}, false, err
	}
	return t.tick(), true, nil
}

func (t *tickRow) tick() tick.Tick {
	return tick.Tick{Job: string(t.job), At: instant(*t.at), Through: instant(*t.through), Count: *t.count,
		State: tick.State(*t.state), Lease: lease.Ref{Key: lease.Key(t.leaseKey), Owner: nonce(*t.leaseOwner), Token: lease.Token(*t.leaseToken)},
		Claimant: holderOf(*t.claimant),
		RunID:    *t.runID, Outcome: run.Outcome(*t.outcome), Reason: *t.reason, Inferred: *t.inferred, Reruns: *t.reruns,
		Claimed: instant(*t.claimed), Started: instant(*t.started), Ended: instant(*t.ended), Live: *t.live}
}

// nonce is the reverse of owner; what is none holds nothing.
func nonce(s string) lease.Nonce {
	n, _ := lease.ParseNonce(s)
	return n
}

func tickRows(into *[]tick.Tick) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		t, _, err := new(tickRow).scan(rows)
		if err == nil {
			*into = append(*into, t)
		}
		return err
	}
}

// runRows scans whole runs.
func runRows(into *[]run.Record) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		r, err := scanRun(rows)
		if err == nil {
			*into = append(*into, r)
		}
		return err
	}
}

// scanRun scans a whole run, after what stands before it.
func scanRun(rows pgx.Rows, before ...any) (r run.Record, err error) {
	var (
		job                           []byte
		tickAt, token, started, ended int64
		owner, outcome, attempts, why string
	)
	if err := rows.Scan(append(before, &r.ID, &job, &tickAt, &owner, &token, &r.Host, &r.PID, &r.Command, &outcome, &r.Reason,
		&r.Inferred, &started, &ended, &attempts, &why)...); err != nil {
		return r, err
	}
	r.Job, r.Tick, r.Token, r.Outcome = string(job), instant(tickAt), lease.Token(token), run.Outcome(outcome)
	r.Started, r.Ended = instant(started), instant(ended)
	r.Owner = nonce(owner)
	if !fromJSON(attempts, &r.Attempts) || !fromJSON(why, &r.Cause) {
		r.Reason = cmp.Or(r.Reason, damaged)
	}
	return r, nil
}

// attempts are a run's as the store keeps them: to the microsecond, in UTC.
func attempts(all []run.Attempt) string {
	if len(all) == 0 {
		return ""
	}
	return toJSON(column(all, func(a run.Attempt) run.Attempt {
		a.Started, a.Ended = micro(a.Started), micro(a.Ended)
		return a
	}))
}

// cause is a run's as the store keeps it: empty for none.
func cause(c *run.Cause) string {
	if c == nil {
		return ""
	}
	kept := *c
	kept.Again = micro(kept.Again)
	return toJSON(kept)
}

func micro(t time.Time) time.Time { return instant(micros(t)) }
