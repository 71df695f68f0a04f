package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) (answers []tick.Answer, err error) {
	reqs = bounds.Of(reqs)
	for chunk := range slices.Chunk(reqs, mostTicks) {
		some, err := k.start(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// start is one packet: it inserts runs and starts their ticks (rule T1).
func (k ticks) start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	var ids, standsOn list
	var at spots
	for _, r := range reqs {
		ids, at = append(ids, []byte(r.Run.ID)), append(at, spotOf(r.Run.Job, r.Run.Tick))
		standsOn = append(standsOn, []byte(r.Lease.Key))
		if r.Run.Tick.IsZero() && r.Claim.Key != "" {
			standsOn = append(standsOn, []byte(r.Claim.Key))
		}
	}
	p := new(packet).add("begin").add("share-leases", k.ns, standsOn).add("lock-ticks", k.ns, at)
	p.add("lock-runs", k.ns, ids).add("clock")
	for _, r := range reqs {
		k.addStart(p, r)
	}
	f := newFacts()
	p.add("now").add("ticks", k.ns, at).add("runs", k.ns, ids).add("commit")
	if err := k.run(ctx, p, readInstant(&f.now), f.ticks.read, f.runs.read); err != nil {
		return nil, err
	}
	answers := make([]tick.Answer, len(reqs))
	for i, r := range reqs {
		answers[i] = f.answer(tick.JudgeStart(r, f.of(at[i], r.Run.ID)), at[i])
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

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) (answers []tick.Answer, err error) {
	reqs = bounds.Of(reqs)
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
		answers[i] = f.answer(tick.JudgeClose(r, f.of(at[i], r.Run.ID)), at[i])
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
