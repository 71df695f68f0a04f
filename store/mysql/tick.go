package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks is tick.Store. Every packet locks its rows in one order, jobs, leases, ticks, runs, and within a table by
// primary key, so that two packets cannot deadlock. As with leases, the statements decide and Go words the reasons.
type ticks struct{ *database }

// mostTicks is how many items travel in one packet.
const mostTicks = 300

// spot is a tick's identity within the namespace.
type spot struct {
	job string
	at  int64
}

func spotOf(job string, at time.Time) spot { return spot{job, micros(at)} }

// spots are ticks as the argument of a statement.
type spots []spot

// tickRows collects ticks by their identity.
type tickRows map[spot]tick.Tick

func (m tickRows) read(r *sql.Rows) error {
	t, err := scanTick(r)
	m[spotOf(t.Job, t.At)] = t
	return err
}

// scanTick reads the columns of the statements ticks, orphans and tick-history.
func scanTick(r *sql.Rows) (t tick.Tick, err error) {
	var owner, claimant []byte
	var at, through, claimed, started, ended int64
	if err = r.Scan(&t.Job, &at, &through, &t.Count, &t.State, &t.Lease.Key, &owner, &t.Lease.Token, &claimant,
		&t.RunID, &t.Outcome, &t.Reason, (*truth)(&t.Inferred), &t.Reruns, &claimed, &started, &ended, &t.Live); err != nil {
		return t, err
	}
	t.At, t.Through = instant(at), instant(through)
	t.Claimed, t.Started, t.Ended = instant(claimed), instant(started), instant(ended)
	t.Lease.Owner, t.Claimant = parseNonce(owner), holderOf(claimant)
	return t, nil
}

// jobRows collects registered jobs by name.
type jobRows map[string]tick.Job

func (m jobRows) read(r *sql.Rows) error {
	j, err := scanJob(r)
	m[j.Name] = j
	return err
}

func scanJob(r *sql.Rows) (j tick.Job, err error) {
	var since, mark, removed, pausedSince, pausedUntil int64
	err = r.Scan(&j.Name, &j.Definition, &j.Generation, &since, &mark, &removed, &pausedSince, &pausedUntil, &j.Pause.By, &j.Pause.Why, (*truth)(&j.Pause.Resumed), &j.Past)
	j.Pause.Since, j.Pause.Until = instant(pausedSince), instant(pausedUntil)
	j.Since, j.Mark, j.Removed = instant(since), instant(mark), instant(removed)
	return j, err
}

// runRows collects runs by id.
type runRows map[string]run.Record

func (m runRows) read(r *sql.Rows) error {
	rec, err := scanRun(r)
	m[rec.ID] = rec
	return err
}

// scanRun reads the columns of the statements runs and run-history.
func scanRun(r *sql.Rows) (rec run.Record, err error) {
	var owner, attempts, cause []byte
	var at, started, ended int64
	if err = r.Scan(&rec.ID, &rec.Job, &at, &owner, &rec.Token, &rec.Host, &rec.PID, &rec.Command, &rec.Outcome,
		&rec.Reason, (*truth)(&rec.Inferred), &started, &ended, &attempts, &cause); err != nil {
		return rec, err
	}
	rec.Tick, rec.Started, rec.Ended = instant(at), instant(started), instant(ended)
	rec.Owner = parseNonce(owner)
	if !fromJSON(attempts, &rec.Attempts) || !fromJSON(cause, &rec.Cause) {
		rec.Reason = cmp.Or(rec.Reason, damaged)
	}
	return rec, nil
}

func causeOf(r run.Record) any {
	if r.Cause == nil {
		return nil
	}
	c := *r.Cause
	c.Again = instant(micros(c.Again))
	return toJSON(c)
}

func attemptsOf(r run.Record) any {
	if len(r.Attempts) == 0 {
		return nil
	}
	all := slices.Clone(r.Attempts)
	for i := range all {
		a := &all[i]
		a.Started, a.Ended = instant(micros(a.Started)), instant(micros(a.Ended))
	}
	return toJSON(all)
}

// Orphans reads a page of unfinished ticks, and keeps those whose lease is not live.
func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := l.Range()
	upto, job, at := []byte(to), []byte(l.After.Job), l.AfterAt()
	p := new(packet).add("orphans", with("began"), k.ns, []byte(from), upto, upto, job, job, at, l.Max())
	read, err := k.read(ctx, "orphans", p)
	return tick.Ended(read, l.Max(), tick.Tick.Orphaned), err
}

func (k ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	at := l.AfterAt()
	p := new(packet).add("owed", with("began"), k.ns, []byte(l.App+"/"), micros(l.From), at, at, []byte(l.After.Job), l.Max())
	read, err := k.read(ctx, "owed", p)
	return tick.Ended(read, l.Max(), tick.Tick.Owed), err
}

func (k ticks) read(ctx context.Context, what string, p *packet) (found []tick.Tick, err error) {
	err = k.run(ctx, p, func(r *sql.Rows) error {
		t, err := scanTick(r)
		found = append(found, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// late is rule L1.
func late(now, notAfter time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
