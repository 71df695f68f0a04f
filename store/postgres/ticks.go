package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks is the tick.Store of one namespace. Whatever locks rows of several tables does so in the
// order leases, jobs, ticks, runs, so that no two operations wait for each other.
type ticks struct {
	leases
}

// hold locks the leases that an operation stands on.
func (k ticks) hold(refs ...lease.Ref) step {
	return do(sqlHold(), k.ns, column(refs, func(r lease.Ref) []byte { return keyBytes(r.Key) }))
}

func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
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
	i                   int
	now, mark           time.Time
	generation          int64
	registered, removed bool
	pause               tick.Pause
	live                bool // the claimant's own lease
	row                 tick.Tick
	found               bool
}

func (s *claimState) scan(rows pgx.Rows) (err error) {
	var now, mark, removed, pausedSince, pausedUntil int64
	s.row, s.found, err = new(tickRow).scan(rows, &s.i, &now, &s.generation, &mark, &s.registered, &removed, &pausedSince, &pausedUntil, &s.live)
	s.pause = tick.Pause{Since: instant(pausedSince), Until: instant(pausedUntil)}
	s.now, s.mark, s.removed = instant(now), instant(mark), removed != 0
	return err
}

func (s *claimState) answer(req tick.ClaimRequest) tick.Answer {
	return tick.Answer{Status: s.status(req), Tick: s.row, Now: s.now}
}

func (s *claimState) status(req tick.ClaimRequest) tick.Status {
	switch {
	case s.found && s.row.Lease == req.Lease && s.row.RunID == "" && s.row.Outcome == req.Outcome:
		return tick.Won // now, or before: the answer to its first request was lost
	case late(s.now, req.NotAfter):
		return tick.Late
	case s.found:
		return tick.Taken
	case s.registered && !req.Fill && !req.At.After(s.mark):
		return tick.Settled
	case req.Generation != 0 && (s.generation != req.Generation || s.removed):
		return tick.Differs
	case req.At.After(s.now.Add(req.Ahead)):
		return tick.Early
	case req.Outcome == "" && s.pause.Stops(req.At, s.now):
		return tick.Paused
	}
	return tick.Lapsed
}

// tickState is what Take and Start are answered from, read after they were tried.
type tickState struct {
	now     time.Time
	live    bool // the newcomer's lease
	owner   string
	token   int64
	outcome string // the run's, with its owner and token; empty owner: there is none
	row     tick.Tick
	found   bool
}

// scan reads a row of the clock, the lease, the run and the tick, after what stands before these.
func (s *tickState) scan(rows pgx.Rows, before ...any) (err error) {
	var now int64
	s.row, s.found, err = new(tickRow).scan(rows, append(before, &now, &s.live, &s.owner, &s.token, &s.outcome)...)
	s.now = instant(now)
	return err
}

func (k ticks) Take(ctx context.Context, req tick.TakeRequest) (tick.Answer, error) {
	var s tickState
	job, at := []byte(req.Job), micros(req.At)
	err := k.db.run(ctx, "take",
		k.hold(req.From, req.Lease),
		do(sqlTake()[0], k.ns, job, at),
		do(sqlTake()[1], k.ns, job, at, keyBytes(req.From.Key), owner(req.From.Owner), int64(req.From.Token),
			keyBytes(req.Lease.Key), owner(req.Lease.Owner), int64(req.Lease.Token), toJSON(req.Claimant),
			req.Rerun, micros(req.NotAfter), req.Fill),
		do(sqlTick(), k.ns, job, at, keyBytes(req.Lease.Key), owner(req.Lease.Owner), int64(req.Lease.Token)).
			each(func(rows pgx.Rows) error { return s.scan(rows) }))
	if err != nil {
		return tick.Answer{}, err
	}
	return tick.Answer{Status: s.taken(req), Tick: s.row, Now: s.now}, nil
}

func (s *tickState) taken(req tick.TakeRequest) tick.Status {
	switch {
	case s.found && s.row.State == tick.Claimed && s.row.Lease == req.Lease:
		return tick.Won
	case late(s.now, req.NotAfter):
		return tick.Late
	case s.found && s.row.Lease == req.From && takeable(s.row, req) && !s.live:
		return tick.Lapsed
	}
	return tick.Taken
}

// takeable is rule T2 for a claim that started nothing, rule T3 for what may be run again, and rule
// T4 for what never ran.
func takeable(row tick.Tick, req tick.TakeRequest) bool {
	switch {
	case req.Fill:
		return row.Fillable()
	case row.State == tick.Claimed:
		return !req.Rerun && !row.Live
	case row.State == tick.Started:
		return req.Rerun && !row.Live
	}
	return req.Rerun && (row.Outcome == run.Lost || row.Outcome == run.Crashed || row.Outcome == run.Canceled)
}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
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
			var s tickState
			if err := s.scan(rows, &i); err != nil {
				return err
			}
			answers[i-1] = tick.Answer{Status: s.started(reqs[i-1]), Tick: s.row, Now: s.now}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (s *tickState) started(req tick.StartRequest) tick.Status {
	claimed := req.Run.Tick.IsZero() || s.found && s.row.State == tick.Claimed && s.row.Lease == req.Claim
	switch {
	case s.owner == owner(req.Lease.Owner) && s.token == int64(req.Lease.Token) && s.outcome == "":
		return tick.Won
	case late(s.now, req.NotAfter):
		return tick.Late
	case s.owner == "" && claimed && (!s.live || req.Run.Tick.IsZero()): // its own lease, or its gate
		return tick.Lapsed
	}
	return tick.Taken
}

func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := l.Range()
	var read []tick.Tick
	err := k.db.run(ctx, "orphans", do(sqlOrphans()[0], k.ns, []byte(from), past(to), []byte(l.After.Job), l.AfterAt(), l.Max()).each(tickRows(&read)))
	return tick.Ended(read, l.Max(), tick.Dead), err
}

func (k ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	var read []tick.Tick
	err := k.db.run(ctx, "owed", do(sqlOrphans()[1], k.ns, []byte(l.App+"/"), micros(l.From), l.AfterAt(), []byte(l.After.Job), l.Max()).
		each(tickRows(&read)))
	return tick.Ended(read, l.Max(), tick.Tick.Owed), err
}
