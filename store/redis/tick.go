package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks fulfils tick.Store: one script per operation, as for leases.
type ticks struct{ *db }

// Claim sends batches of maxBatch, each one atomic script (see lua/claim.lua).
func (t ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	out := make([]tick.Answer, 0, len(reqs))
	err := inBatches(reqs, func(reqs []tick.ClaimRequest) error {
		a := t.newArgs(11 * len(reqs))
		for _, q := range reqs {
			a = append(a, q.Job, micros(q.At), q.Generation, string(q.Lease.Key), hold(q.Lease), text(q.Claimant),
				q.Ahead.Microseconds(), micros(q.NotAfter), string(q.Outcome), q.Reason, flag(q.Fill))
		}
		r, err := t.run(ctx, "claim", claimScript, a)
		if err != nil {
			return err
		}
		for i, q := range reqs {
			out = append(out, claimAnswer(q, r, i))
		}
		return nil
	})
	return out, err
}

// claimAnswer reads answer i. A claim that was just won is answered by a number alone.
func claimAnswer(q tick.ClaimRequest, r reply, i int) tick.Answer {
	now := r.time(0)
	if found := r.list(1 + i); found != nil {
		return tick.Answer{Status: tick.Status(found.int(0)), Tick: parseTick(found.list(1)), Now: now}
	}
	won := tick.Tick{Job: q.Job, At: instant(micros(q.At)), State: tick.Claimed, Lease: q.Lease,
		Claimant: q.Claimant, Claimed: now, Live: true}
	if q.Outcome != "" {
		won.State, won.Outcome, won.Reason, won.Ended = tick.Closed, q.Outcome, q.Reason, now
	}
	return tick.Answer{Status: tick.Won, Tick: won, Now: now}
}

// Take hands a tick over (see lua/take.lua).
func (t ticks) Take(ctx context.Context, q tick.TakeRequest) (tick.Answer, error) {
	q = bounds.Of(q)
	from, how := "", "" // what was settled has no lease
	if q.From != (lease.Ref{}) {
		from = hold(q.From)
	}
	switch {
	case q.Fill:
		how = "fill"
	case q.Rerun:
		how = "rerun"
	}
	a := append(t.newArgs(9), q.Job, micros(q.At), string(q.From.Key), from, string(q.Lease.Key),
		hold(q.Lease), text(q.Claimant), how, micros(q.NotAfter))
	r, err := t.run(ctx, "take", takeScript, a)
	return tickAnswer(r), err
}

// tickAnswer reads the answer to a request about one tick.
func tickAnswer(r reply) tick.Answer {
	return tick.Answer{Status: tick.Status(r.int(1)), Tick: parseTick(r.list(2)), Now: r.time(0)}
}

func (t ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	return inTicks(ctx, t, "start", startScript, reqs, startArgs)
}

func startArgs(q tick.StartRequest) args {
	rec := q.Run
	rec.Owner, rec.Token = q.Lease.Owner, q.Lease.Token
	rec.Outcome, rec.Reason, rec.Inferred, rec.Ended = "", "", false, time.Time{}
	return append(args{string(q.Claim.Key), hold(q.Claim), string(q.Lease.Key), hold(q.Lease), micros(q.NotAfter)}, runArgs(rec)...)
}

func (t ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	return inTicks(ctx, t, "close", closeScript, reqs, closeArgs)
}

// inTicks carries out a script that answers each item with a status and a tick.
func inTicks[Q any](ctx context.Context, t ticks, what string, s *script, reqs []Q, words func(Q) args) ([]tick.Answer, error) {
	out := make([]tick.Answer, 0, len(reqs))
	err := inBatches(reqs, func(reqs []Q) error {
		a := t.newArgs(19 * len(reqs))
		for _, q := range reqs {
			a = append(a, words(q)...)
		}
		r, err := t.run(ctx, what, s, a)
		if err != nil {
			return err
		}
		for i := range reqs {
			found := r.list(1 + i)
			out = append(out, tick.Answer{Status: tick.Status(found.int(0)), Tick: parseTick(found.list(1)), Now: r.time(0)})
		}
		return nil
	})
	return out, err
}

func closeArgs(q tick.CloseRequest) args {
	release := ""
	if q.Release.Owner != (lease.Nonce{}) {
		release = hold(q.Release)
	}
	return args{q.Run.ID, runHold(q.Run), q.Run.Job, micros(q.Run.Tick), string(q.Run.Outcome), q.Run.Reason,
		flag(q.Run.Inferred), micros(q.Run.Ended), attempts(q.Run.Attempts), string(q.Claim.Key), hold(q.Claim),
		string(q.Release.Key), release}
}

func (t ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	from, to := lexRange(l.Prefix)
	if l.Job != "" {
		from, to = lexRange(l.Job + beside)
	}
	if l.After != (tick.Spot{}) {
		from = "(" + l.After.Job + beside + strconv.FormatInt(micros(l.After.At), 10)
	}
	r, err := t.run(ctx, "orphans", orphansScript, append(t.newArgs(3), from, to, l.Max()))
	return tick.Ended(parseTicks(r), l.Max(), tick.Tick.Orphaned), err
}

// beside separates job and instant in the index of unfinished ticks. No name contains it.
const beside = "\x1f"

func (t ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	from, to := "["+strconv.FormatInt(micros(l.From), 10), "+"
	if l.After != (tick.Spot{}) {
		to = "(" + strconv.FormatInt(micros(l.After.At), 10) + ":" + l.After.Job
	}
	r, err := t.run(ctx, "owed", owedScript, append(t.newArgs(4), l.App+"/", from, to, l.Max()))
	return tick.Ended(parseTicks(r), l.Max(), tick.Tick.Owed), err
}

// runHold is the fence of a run: that of the lease under which it was started.
func runHold(r run.Record) string { return hold(lease.Ref{Owner: r.Owner, Token: r.Token}) }
