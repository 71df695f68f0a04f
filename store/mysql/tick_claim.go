package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

// facts are what a packet read under its locks after its statements have decided, by the clock that they decided by.
// They call no lease live: if nothing else was in a request's way, its lease was.
type facts struct {
	now   time.Time
	jobs  jobRows
	ticks tickRows
	runs  runRows
}

func newFacts() *facts { return &facts{jobs: jobRows{}, ticks: tickRows{}, runs: runRows{}} }

// of are the facts of one item.
func (f *facts) of(at spot, runID string) tick.Facts {
	return tick.Facts{Now: f.now, Tick: f.ticks[at], Job: f.jobs[at.job], Run: f.runs[runID]}
}

// answer is how an item ended, by the rows as they stand now.
func (f *facts) answer(v tick.Verdict, at spot) tick.Answer {
	return tick.Answer{Status: v.After(tick.Taken), Tick: f.ticks[at], Now: f.now}
}

func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) (answers []tick.Answer, err error) {
	reqs = bounds.Of(reqs)
	for chunk := range slices.Chunk(reqs, mostTicks) {
		some, err := k.claim(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// claim is one packet: lock jobs, share leases, read the clock, insert, read the facts (rules T1, T4).
func (k ticks) claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	var names, holders list
	var at spots
	for _, r := range reqs {
		names, holders = append(names, []byte(r.Job)), append(holders, []byte(r.Lease.Key))
		at = append(at, spotOf(r.Job, r.At))
	}
	// The jobs are locked for writing although only their marks are read: two claimants of one
	// tick then wait here, before the clock is read, and not in the INSERT after it.
	p := new(packet).add("begin").add("lock-jobs", k.ns, names).add("share-leases", k.ns, holders).add("clock")
	for _, r := range inOrder(reqs) {
		k.addClaim(p, r)
	}
	f := newFacts()
	p.add("now").add("jobs", k.ns, names).add("ticks", k.ns, at).add("commit")
	if err := k.run(ctx, p, readInstant(&f.now), f.jobs.read, f.ticks.read); err != nil {
		return nil, err
	}
	answers := make([]tick.Answer, len(reqs))
	for i, r := range reqs {
		answers[i] = f.answer(tick.JudgeClaim(r, f.of(at[i], "")), at[i])
	}
	return answers, nil
}

// inOrder sorts requests by the primary key of their ticks, in which rows are inserted.
func inOrder(reqs []tick.ClaimRequest) []tick.ClaimRequest {
	sorted := slices.Clone(reqs)
	slices.SortStableFunc(sorted, func(x, y tick.ClaimRequest) int {
		if c := strings.Compare(x.Job, y.Job); c != 0 {
			return c
		}
		return x.At.Compare(y.At)
	})
	return sorted
}

func (k ticks) addClaim(p *packet, r tick.ClaimRequest) {
	name, at, state := []byte(r.Job), micros(r.At), tick.Claimed
	if r.Outcome != "" {
		state = tick.Closed
	}
	p.add("claim", name, at, string(state), toJSON(r.Claimant), string(r.Outcome), text(r.Reason), string(state), name,
		k.ns, []byte(r.Lease.Key), nonce(r.Lease.Owner), int64(r.Lease.Token),
		bound(r.NotAfter), at, r.Ahead.Microseconds(), flag(r.Fill), at, r.Generation, r.Generation, string(state), at, at)
}

// Take hands a tick over in one packet (rules T2, T3).
func (k ticks) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	r = bounds.Of(r)
	at, name, us, rerun := spotOf(r.Job, r.At), []byte(r.Job), micros(r.At), flag(r.Rerun)
	holders := list{[]byte(r.From.Key), []byte(r.Lease.Key)}
	// The old holder's lease is locked, so that a renewal under way is seen or has to wait.
	p := new(packet).add("begin").add("share-leases", k.ns, holders).add("lock-ticks", k.ns, spots{at}).add("clock")
	p.add("take", []byte(r.Lease.Key), nonce(r.Lease.Owner), int64(r.Lease.Token), k.ns, name, us, bound(r.NotAfter),
		[]byte(r.From.Key), nonce(r.From.Owner), int64(r.From.Token), flag(r.Fill), rerun, rerun, rerun)
	f := newFacts()
	p.add("now")
	p.add("take-run", k.ns, k.ns, name, us)
	p.add("take-tick", []byte(r.Lease.Key), nonce(r.Lease.Owner), int64(r.Lease.Token), toJSON(r.Claimant), rerun, k.ns, name, us)
	p.add("ticks", k.ns, spots{at}).add("commit")
	if err := k.run(ctx, p, readInstant(&f.now), f.ticks.read); err != nil {
		return tick.Answer{}, fmt.Errorf("take: %w", err)
	}
	return f.answer(tick.JudgeTake(r, f.of(at, "")), at), nil
}
