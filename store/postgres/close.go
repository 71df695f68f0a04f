package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Close releases leases, ends runs and claims, and reads the answers: one batch, so an outcome and the release of its
// lease are one step (rule T9).
func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
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
		k.release(releases, false),
		do(sqlClose()[0], k.ns, jobs, at),
		k.closeRuns(runs),
		k.closeClaims(claims),
		do(sqlClose()[3], k.ns, column(reqs, func(r tick.CloseRequest) string { return r.Run.ID }), jobs, at).
			each(func(rows pgx.Rows) error {
				var s closeState
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

func closedJob(r tick.CloseRequest) []byte     { return []byte(r.Run.Job) }
func closedAt(r tick.CloseRequest) int64       { return micros(r.Run.Tick) }
func closedOutcome(r tick.CloseRequest) string { return string(r.Run.Outcome) }
func closedReason(r tick.CloseRequest) string  { return r.Run.Reason }
func closedInferred(r tick.CloseRequest) bool  { return r.Run.Inferred }
func closedEnded(r tick.CloseRequest) int64    { return micros(r.Run.Ended) }

// closeRuns and closeClaims are the steps of sql/close.sql.
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
	i int
	tick.Facts
}

func (s *closeState) scan(rows pgx.Rows) (err error) {
	var now, token int64
	var owner, outcome string
	if s.Tick, _, err = new(tickRow).scan(rows, &s.i, &now, &owner, &token, &outcome, &s.Run.Inferred); err != nil {
		return err
	}
	s.Now, s.Run.Token, s.Run.Outcome = instant(now), lease.Token(token), run.Outcome(outcome)
	s.Run.Owner = nonce(owner)
	return nil
}

func (s *closeState) answer(req tick.CloseRequest) tick.Answer {
	if s.Run.Owner != (lease.Nonce{}) { // else there is no such run
		s.Run.ID = req.Run.ID
	}
	return tick.Answer{Status: tick.JudgeClose(req, s.Facts).After(tick.Taken), Tick: s.Tick, Now: s.Now}
}
