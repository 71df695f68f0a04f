package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// rerunnable are the outcomes that a tick may be run again after (rule T3).
var rerunnable = []run.Outcome{run.Lost, run.Crashed, run.Canceled}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) (answers []tick.Answer, err error) {
	for chunk := range slices.Chunk(reqs, mostTicks) {
		some, err := k.start(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

func (k ticks) start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	var ids, holders, standsOn list
	var at spots
	for _, r := range reqs {
		ids, at = append(ids, []byte(r.Run.ID)), append(at, spotOf(r.Run.Job, r.Run.Tick))
		holders, standsOn = append(holders, []byte(r.Lease.Key)), append(standsOn, []byte(r.Lease.Key))
		if r.Run.Tick.IsZero() && r.Claim.Key != "" {
			standsOn = append(standsOn, []byte(r.Claim.Key))
		}
	}
	p := new(packet).add("begin").add("share-leases", k.ns, standsOn).add("lock-ticks", k.ns, at)
	p.add("lock-runs", k.ns, ids).add("clock")
	f, before := newFacts(), newFacts()
	p.add("now").add("live", k.ns, holders).add("ticks", k.ns, at).add("runs", k.ns, ids)
	for _, r := range reqs {
		k.addStart(p, r)
	}
	p.add("ticks", k.ns, at).add("runs", k.ns, ids).add("commit")
	if err := k.run(ctx, p, readInstant(&f.now), f.live.read, before.ticks.read, before.runs.read, f.ticks.read, f.runs.read); err != nil {
		return nil, err
	}
	answers := make([]tick.Answer, len(reqs))
	for i, r := range reqs {
		answers[i] = f.answer(f.started(r, before, at[i]), at[i])
	}
	return answers, nil
}

func (k ticks) addStart(p *packet, req tick.StartRequest) {
	r, at := req.Run, spotOf(req.Run.Job, req.Run.Tick)
	id, name := []byte(r.ID), []byte(r.Job)
	key, owner, token := []byte(req.Lease.Key), nonce(req.Lease.Owner), int64(req.Lease.Token)
	claimKey, claimOwner, claimToken := []byte(req.Claim.Key), nonce(req.Claim.Owner), int64(req.Claim.Token)
	p.add("start-run", id, name, at.at, text(r.Host), r.PID, text(r.Command), micros(r.Started), micros(r.Started), attemptsOf(r), causeOf(r),
		k.ns, key, owner, token, bound(req.NotAfter), at.at, claimKey, claimKey, claimOwner, claimToken, name, at.at, claimKey, claimOwner, claimToken)
	if at.at != 0 {
		p.add("start-tick", key, owner, token, id, k.ns, name, at.at, claimKey, claimOwner, claimToken, k.ns, id, owner, token, name, at.at)
	}
}

func (f *facts) started(req tick.StartRequest, before *facts, at spot) tick.Status {
	known, found := f.runs[req.Run.ID]
	_, repeated := before.runs[req.Run.ID]
	was := before.ticks[at]
	switch {
	case found && known.Outcome == "" && known.Owner == req.Lease.Owner && known.Token == req.Lease.Token:
		return tick.Won // now, or when it asked before
	case late(f.now, req.NotAfter):
		return tick.Late
	case repeated, at.at != 0 && (was.State != tick.Claimed || was.Lease != req.Claim):
		return tick.Taken
	case found, at.at != 0 && f.ticks[at].State != tick.Claimed: // another item of the batch was first
		return tick.Taken
	}
	return tick.Lapsed
}

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) (answers []tick.Answer, err error) {
	for chunk := range slices.Chunk(reqs, mostTicks) {
		some, err := k.close(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("close: %w", err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// close records outcomes and frees their leases in one transaction (rule T9).
func (k ticks) close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	var ids list
	var at spots
	var released []lease.Ref
	for _, r := range reqs {
		ids, at = append(ids, []byte(r.Run.ID)), append(at, spotOf(r.Run.Job, r.Run.Tick))
		if (r.Release.Owner != lease.Nonce{}) {
			released = append(released, r.Release)
		}
	}
	p := new(packet).add("begin")
	if len(released) > 0 {
		ks, _ := holdsOf(released)
		p.add("lock-leases", k.ns, ks)
	}
	p.add("lock-ticks", k.ns, at).add("lock-runs", k.ns, ids).add("clock")
	for _, r := range reqs {
		k.addClose(p, r)
	}
	if len(released) > 0 {
		k.addRelease(p, released)
	}
	f := newFacts()
	p.add("now").add("ticks", k.ns, at).add("runs", k.ns, ids).add("commit")
	if err := k.run(ctx, p, readInstant(&f.now), f.ticks.read, f.runs.read); err != nil {
		return nil, err
	}
	answers := make([]tick.Answer, len(reqs))
	for i, r := range reqs {
		answers[i] = f.answer(f.closed(r, at[i]), at[i])
	}
	return answers, nil
}

func (k ticks) addClose(p *packet, req tick.CloseRequest) {
	r, at := req.Run, spotOf(req.Run.Job, req.Run.Tick)
	outcome, reason, ended, inferred := string(r.Outcome), text(r.Reason), micros(r.Ended), flag(r.Inferred)
	name, id, owner, token := []byte(at.job), []byte(r.ID), nonce(r.Owner), int64(r.Token)
	if r.ID == "" {
		p.add("close-claim", outcome, reason, ended, ended, inferred, k.ns, name, at.at,
			[]byte(req.Claim.Key), nonce(req.Claim.Owner), int64(req.Claim.Token))
		return
	}
	p.add("close-run", outcome, reason, attemptsOf(r), ended, ended, inferred, k.ns, id, owner, token, inferred)
	if at.at != 0 {
		p.add("close-tick", outcome, reason, ended, ended, inferred, k.ns, name, at.at, id, inferred,
			k.ns, id, owner, token, outcome, inferred)
	}
}

// closed says how one item ended: it is won if what it reports is what now stands.
func (f *facts) closed(req tick.CloseRequest, at spot) tick.Status {
	row, r := f.ticks[at], f.runs[req.Run.ID]
	if req.Run.ID == "" {
		if row.State == tick.Closed && row.Lease == req.Claim && row.RunID == "" && row.Outcome == req.Run.Outcome {
			return tick.Won
		}
		return tick.Taken
	}
	if r.Owner == req.Run.Owner && r.Token == req.Run.Token && r.Outcome == req.Run.Outcome && r.Inferred == req.Run.Inferred && r.ID != "" {
		return tick.Won
	}
	return tick.Taken
}
