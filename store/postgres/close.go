package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	var releases []lease.Ref
	var runs, claims []tick.CloseRequest
	for _, r := range reqs {
		if r.Release.Owner != (lease.Nonce{}) {
			releases = append(releases, r.Release)
		}
		if r.Run.ID != "" {
			runs = append(runs, r)
		} else {
			claims = append(claims, r)
		}
	}
	jobs, at := column(reqs, closedJob), column(reqs, closedAt)
	answers := make([]tick.Answer, len(reqs))
	err := k.db.run(ctx, "close",
		k.release(releases),
		do(sqlClose()[0], k.ns, jobs, at),
		k.closeRuns(runs),
		k.closeClaims(claims),
		do(sqlClose()[3], k.ns, column(reqs, func(r tick.CloseRequest) string { return r.Run.ID }), jobs, at).
			each(func(rows pgx.Rows) error {
				var s closeState
				if err := s.scan(rows); err != nil {
					return err
				}
				answers[s.i-1] = tick.Answer{Status: s.status(reqs[s.i-1]), Tick: s.row, Now: s.now}
				return nil
			}))
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func closedJob(r tick.CloseRequest) []byte     { return []byte(r.Run.Job) }
func closedAt(r tick.CloseRequest) int64       { return micros(r.Run.Tick) }
func closedOutcome(r tick.CloseRequest) string { return string(r.Run.Outcome) }
func closedReason(r tick.CloseRequest) string  { return r.Run.Reason }
func closedInferred(r tick.CloseRequest) bool  { return r.Run.Inferred }
func closedEnded(r tick.CloseRequest) int64    { return micros(r.Run.Ended) }

func (k ticks) closeRuns(reqs []tick.CloseRequest) step {
	return do(sqlClose()[1], k.ns,
		column(reqs, func(r tick.CloseRequest) string { return r.Run.ID }),
		column(reqs, func(r tick.CloseRequest) string { return owner(r.Run.Owner) }),
		column(reqs, func(r tick.CloseRequest) int64 { return int64(r.Run.Token) }),
		column(reqs, closedOutcome), column(reqs, closedReason), column(reqs, closedInferred), column(reqs, closedEnded),
		column(reqs, func(r tick.CloseRequest) string { return attempts(r.Run.Attempts) }))
}

func (k ticks) closeClaims(reqs []tick.CloseRequest) step {
	return do(sqlClose()[2], k.ns, column(reqs, closedJob), column(reqs, closedAt),
		column(reqs, func(r tick.CloseRequest) []byte { return keyBytes(r.Claim.Key) }),
		column(reqs, func(r tick.CloseRequest) string { return owner(r.Claim.Owner) }),
		column(reqs, func(r tick.CloseRequest) int64 { return int64(r.Claim.Token) }),
		column(reqs, closedOutcome), column(reqs, closedReason), column(reqs, closedInferred), column(reqs, closedEnded))
}

// closeState is what a close is answered from, read after it was tried.
type closeState struct {
	i        int
	now      time.Time
	owner    string // with token and outcome, the run's; empty: there is none
	token    int64
	outcome  string
	inferred bool
	row      tick.Tick
	found    bool
}

func (s *closeState) scan(rows pgx.Rows) (err error) {
	var now int64
	s.row, s.found, err = new(tickRow).scan(rows, &s.i, &now, &s.owner, &s.token, &s.outcome, &s.inferred)
	s.now = instant(now)
	return err
}

// status is Won if what was reported stands, now or since an earlier request.
func (s *closeState) status(req tick.CloseRequest) tick.Status {
	r := req.Run
	won := s.owner == owner(r.Owner) && s.token == int64(r.Token) && s.outcome == string(r.Outcome) && s.inferred == r.Inferred
	if r.ID == "" {
		won = s.found && s.row.RunID == "" && s.row.Lease == req.Claim && s.row.State == tick.Closed && s.row.Outcome == r.Outcome
	}
	if won {
		return tick.Won
	}
	return tick.Taken
}
