package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks is the tick.Store of one namespace. An operation that locks rows of several tables does so in the order
// leases, jobs, ticks, runs, so that no two operations deadlock.
type ticks struct {
	leases
}

// hold locks the leases on which an operation relies.
func (k ticks) hold(refs ...lease.Ref) step {
	return do(sqlHold(), k.ns, column(refs, func(r lease.Ref) []byte { return keyBytes(r.Key) }))
}

// Claim locks leases and jobs, inserts, takes back what came too late, and reads the facts: one batch (see
// sql/claim.sql). tick.JudgeClaim says what to answer.
func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	jobs := column(reqs, func(r tick.ClaimRequest) []byte { return []byte(r.Job) })
	at := column(reqs, func(r tick.ClaimRequest) int64 { return micros(r.At) })
	notAfter := column(reqs, func(r tick.ClaimRequest) int64 { return micros(r.NotAfter) })
	keys := column(reqs, func(r tick.ClaimRequest) []byte { return keyBytes(r.Lease.Key) })
	owners := column(reqs, func(r tick.ClaimRequest) string { return owner(r.Lease.Owner) })
	tokens := column(reqs, func(r tick.ClaimRequest) int64 { return int64(r.Lease.Token) })
	answers := make([]tick.Answer, len(reqs))
	err := k.db.run(ctx, "claim",
		k.hold(column(reqs, func(r tick.ClaimRequest) lease.Ref { return r.Lease })...),
		do(sqlClaim()[0], k.ns, jobs),
		do(sqlClaim()[1], k.ns, jobs, at,
			column(reqs, func(r tick.ClaimRequest) int64 { return r.Generation }), keys, owners, tokens,
			column(reqs, func(r tick.ClaimRequest) string { return toJSON(r.Claimant) }),
			column(reqs, func(r tick.ClaimRequest) int64 { return r.Ahead.Microseconds() }), notAfter,
			column(reqs, func(r tick.ClaimRequest) string { return string(r.Outcome) }),
			column(reqs, func(r tick.ClaimRequest) string { return r.Reason }),
			column(reqs, func(r tick.ClaimRequest) bool { return r.Fill })),
		do(sqlClaim()[2], k.ns, jobs, at, notAfter),
		do(sqlClaim()[3], k.ns, jobs, at, keys, owners, tokens).each(func(rows pgx.Rows) error {
			var s claimState
			if err := s.scan(rows); err != nil {
				return err
			}
			answers[s.i-1] = s.answer(reqs[s.i-1])
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// claimState is what a claim is answered from, read after it was tried.
type claimState struct {
	i int
	tick.Facts
}

func (s *claimState) scan(rows pgx.Rows) (err error) {
	var now, mark, removed, pausedSince, pausedUntil int64
	var registered bool
	s.Tick, _, err = new(tickRow).scan(rows, &s.i, &now, &s.Job.Generation, &mark, &registered, &removed, &pausedSince, &pausedUntil, &s.Live)
	s.Now, s.Job.Mark, s.Job.Removed = instant(now), instant(mark), instant(removed)
	s.Job.Pause = tick.Pause{Since: instant(pausedSince), Until: instant(pausedUntil)}
	return err
}

func (s *claimState) answer(req tick.ClaimRequest) tick.Answer {
	return tick.Answer{Status: tick.JudgeClaim(req, s.Facts).After(tick.Lapsed), Tick: s.Tick, Now: s.Now}
}

// tickFacts scans the facts from which Take and Start are answered, after the columns before: the clock, whether the
// newcomer's lease is live, the run's owner (empty: there is no run), token and outcome, and the tick.
func tickFacts(rows pgx.Rows, f *tick.Facts, before ...any) (err error) {
	var now, token int64
	var owner, outcome string
	if f.Tick, _, err = new(tickRow).scan(rows, append(before, &now, &f.Live, &owner, &token, &outcome)...); err != nil {
		return err
	}
	f.Now, f.Run.Token, f.Run.Outcome = instant(now), lease.Token(token), run.Outcome(outcome)
	f.Run.Owner = nonce(owner)
	return nil
}

// Take locks both leases and the tick, hands it over, and reads the facts (see sql/take.sql).
func (k ticks) Take(ctx context.Context, req tick.TakeRequest) (tick.Answer, error) {
	req = bounds.Of(req)
	var f tick.Facts
	job, at := []byte(req.Job), micros(req.At)
	err := k.db.run(ctx, "take",
		k.hold(req.From, req.Lease),
		do(sqlTake()[0], k.ns, job, at),
		do(sqlTake()[1], k.ns, job, at, keyBytes(req.From.Key), owner(req.From.Owner), int64(req.From.Token),
			keyBytes(req.Lease.Key), owner(req.Lease.Owner), int64(req.Lease.Token), toJSON(req.Claimant),
			req.Rerun, micros(req.NotAfter), req.Fill),
		do(sqlTick(), k.ns, job, at, keyBytes(req.Lease.Key), owner(req.Lease.Owner), int64(req.Lease.Token)).
			each(func(rows pgx.Rows) error { return tickFacts(rows, &f) }))
	if err != nil {
		return tick.Answer{}, err
	}
	return tick.Answer{Status: tick.JudgeTake(req, f).After(tick.Taken), Tick: f.Tick, Now: f.Now}, nil
}

// Start locks the leases and ticks, starts, and reads the facts (see sql/start.sql).
func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	var standsOn []lease.Ref
	for _, r := range reqs {
		standsOn = append(standsOn, r.Lease)
		if r.Run.Tick.IsZero() && r.Claim != (lease.Ref{}) {
			standsOn = append(standsOn, r.Claim)
		}
	}
	ids := column(reqs, func(r tick.StartRequest) string { return r.Run.ID })
	jobs := column(reqs, func(r tick.StartRequest) []byte { return []byte(r.Run.Job) })
	at := column(reqs, func(r tick.StartRequest) int64 { return micros(r.Run.Tick) })
	keys := column(reqs, func(r tick.StartRequest) []byte { return keyBytes(r.Lease.Key) })
	owners := column(reqs, func(r tick.StartRequest) string { return owner(r.Lease.Owner) })
	tokens := column(reqs, func(r tick.StartRequest) int64 { return int64(r.Lease.Token) })
	answers := make([]tick.Answer, len(reqs))
	err := k.db.run(ctx, "start",
		k.hold(standsOn...),
		do(sqlStart()[0], k.ns, jobs, at),
		do(sqlStart()[1], k.ns, ids, jobs, at,
			column(reqs, func(r tick.StartRequest) []byte { return keyBytes(r.Claim.Key) }),
			column(reqs, func(r tick.StartRequest) string { return owner(r.Claim.Owner) }),
			column(reqs, func(r tick.StartRequest) int64 { return int64(r.Claim.Token) }),
			keys, owners, tokens, column(reqs, func(r tick.StartRequest) int64 { return micros(r.NotAfter) }),
			column(reqs, func(r tick.StartRequest) string { return r.Run.Host }),
			column(reqs, func(r tick.StartRequest) int64 { return int64(r.Run.PID) }),
			column(reqs, func(r tick.StartRequest) string { return r.Run.Command }),
			column(reqs, func(r tick.StartRequest) int64 { return micros(r.Run.Started) }),
			column(reqs, func(r tick.StartRequest) string { return cause(r.Run.Cause) })),
		do(sqlStart()[2], k.ns, ids, jobs, at, keys, owners, tokens).each(func(rows pgx.Rows) error {
			var i int
			var f tick.Facts
			if err := tickFacts(rows, &f, &i); err != nil {
				return err
			}
			answers[i-1] = startAnswer(reqs[i-1], f)
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// startAnswer answers a start. If a start without a tick was refused and the facts show no reason, its gate was shut.
func startAnswer(req tick.StartRequest, f tick.Facts) tick.Answer {
	if f.Run.Owner != (lease.Nonce{}) {
		f.Run.ID = req.Run.ID
	}
	refused := tick.Taken
	if req.Run.Tick.IsZero() {
		refused = tick.Lapsed
	}
	return tick.Answer{Status: tick.JudgeStart(req, f).After(refused), Tick: f.Tick, Now: f.Now}
}

// Orphans reads a page of unfinished ticks, and keeps those whose lease is not live.
func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := l.Range()
	var read []tick.Tick
	err := k.db.run(ctx, "orphans", do(sqlOrphans()[0], k.ns, []byte(from), past(to), []byte(l.After.Job), l.AfterAt(), l.Max()).each(tickRows(&read)))
	return tick.Ended(read, l.Max(), tick.Tick.Orphaned), err
}

// Owed reads a page of an application's owed ticks.
func (k ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	var read []tick.Tick
	err := k.db.run(ctx, "owed", do(sqlOrphans()[1], k.ns, []byte(l.App+"/"), micros(l.From), l.AfterAt(), []byte(l.After.Job), l.Max()).
		each(tickRows(&read)))
	return tick.Ended(read, l.Max(), tick.Tick.Owed), err
}
