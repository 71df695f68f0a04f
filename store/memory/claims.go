package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks is b's side of tick.Store. tick's rules (JudgeClaim and so on) decide; this reads the facts and writes the
// verdicts.
type ticks struct{ b *Backend }

// step does one atomic step at one instant of the store's clock.
func step[T any](ctx context.Context, b *Backend, do func(now time.Time) T) (T, error) {
	if err := alive(ctx); err != nil {
		var none T
		return none, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return do(b.now()), nil
}

func each[Q, A any](reqs []Q, now time.Time, do func(Q, time.Time) A) []A {
	answers := make([]A, 0, len(reqs))
	for _, q := range reqs {
		answers = append(answers, do(q, now))
	}
	return answers
}

// live says whether ref is a live hold: every claim and start relies on one.
func (b *Backend) live(ref lease.Ref, now time.Time) bool {
	r := b.leases[ref.Key]
	return holds(r, ref) && r.Live(now)
}

func (b *Backend) row(job string, at time.Time) (tick.Tick, bool) {
	l := b.ticks[job]
	if l == nil {
		return tick.Tick{}, false
	}
	i, found := l.find(micro(at))
	if !found {
		return tick.Tick{}, false
	}
	return l.rows[i], true
}

func (b *Backend) putRow(t tick.Tick) {
	if b.ticks[t.Job] == nil {
		b.ticks[t.Job] = &ledger{open: map[int64]bool{}, owed: map[int64]bool{}}
	}
	t.Live = false
	b.ticks[t.Job].put(t)
}

// told is the row as an answer shows it.
func (b *Backend) told(t tick.Tick, now time.Time) tick.Tick {
	t.Live = t.Lease.Owner != lease.Nonce{} && b.live(t.Lease, now)
	return t
}

// answer tells the row of (job, at) as it now stands.
func (b *Backend) answer(s tick.Status, job string, at, now time.Time) tick.Answer {
	t, _ := b.row(job, at)
	return tick.Answer{Status: s, Tick: b.told(t, now), Now: now}
}

func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	return step(ctx, k.b, func(now time.Time) []tick.Answer { return each(reqs, now, k.b.claim) })
}

func (b *Backend) claim(req tick.ClaimRequest, now time.Time) tick.Answer {
	f := b.facts(req.Job, req.At, now)
	f.Job, f.Live = b.jobs[req.Job], b.live(req.Lease, now)
	return b.carryOut(tick.JudgeClaim(req, f), req.Job, req.At, now)
}

// facts are what tick's rules judge by: of the row so far.
func (b *Backend) facts(job string, at, now time.Time) tick.Facts {
	t, _ := b.row(job, at)
	return tick.Facts{Now: now, Tick: b.told(t, now)}
}

// carryOut writes what a verdict says, and answers with the row of (job, at) as it then stands.
func (b *Backend) carryOut(v tick.Verdict, job string, at, now time.Time) tick.Answer {
	if v.Tick != nil {
		b.putRow(*v.Tick)
	}
	if v.Run != nil {
		b.putRun(*v.Run)
	}
	return b.answer(v.Status, job, at, now)
}

// known is a run; the zero Record if there is none.
func (b *Backend) known(id string) run.Record {
	if r := b.runs[id]; r != nil {
		return *r
	}
	return run.Record{}
}

// Take hands a tick over (rules T2, T3).
func (k ticks) Take(ctx context.Context, req tick.TakeRequest) (tick.Answer, error) {
	req = bounds.Of(req)
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		f := k.b.facts(req.Job, req.At, now)
		f.Run, f.Live = k.b.known(f.Tick.RunID), k.b.live(req.Lease, now)
		return k.b.carryOut(tick.JudgeTake(req, f), req.Job, req.At, now)
	})
}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	reqs = bounds.Of(reqs)
	return step(ctx, k.b, func(now time.Time) []tick.Answer { return each(reqs, now, k.b.start) })
}

func (b *Backend) start(req tick.StartRequest, now time.Time) tick.Answer {
	f := b.facts(req.Run.Job, req.Run.Tick, now)
	f.Run, f.Live, f.Gate = b.known(req.Run.ID), b.live(req.Lease, now), b.live(req.Claim, now)
	return b.carryOut(tick.JudgeStart(req, f), req.Run.Job, req.Run.Tick, now)
}

// Orphans looks at unfinished ticks, and finds those whose lease is not live.
func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	return step(ctx, k.b, func(now time.Time) tick.Found {
		var open []tick.Spot
		for _, name := range k.b.named(l.Job, l.Prefix) {
			for us := range k.b.ticks[name].open {
				open = append(open, tick.Spot{Job: name, At: micro(time.UnixMicro(us))})
			}
		}
		slices.SortFunc(open, byJob)
		return k.b.looked(open, l.After, l.Max(), byJob, tick.Tick.Orphaned, now)
	})
}

// Owed looks at an application's owed ticks.
func (k ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	return step(ctx, k.b, func(now time.Time) tick.Found {
		var owed []tick.Spot
		for _, name := range k.b.named("", l.App+"/") {
			ledger := k.b.ticks[name]
			for us := range ledger.owed {
				if at := micro(time.UnixMicro(us)); !at.Before(l.From) {
					owed = append(owed, tick.Spot{Job: name, At: at})
				}
			}
		}
		slices.SortFunc(owed, latestFirst)
		return k.b.looked(owed, l.After, l.Max(), latestFirst, tick.Tick.Owed, now)
	})
}

// named are the jobs with ticks that a Look is about.
func (b *Backend) named(job, prefix string) (names []string) {
	if job != "" {
		if b.ticks[job] == nil {
			return nil
		}
		return []string{job}
	}
	for name := range b.ticks {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

func byJob(x, y tick.Spot) int { return cmp.Or(strings.Compare(x.Job, y.Job), x.At.Compare(y.At)) }
func latestFirst(x, y tick.Spot) int {
	return cmp.Or(y.At.Compare(x.At), strings.Compare(y.Job, x.Job))
}

// looked looks at the spots after one, which are in an order.
func (b *Backend) looked(
	all []tick.Spot, after tick.Spot, limit int, order func(x, y tick.Spot) int, keep func(tick.Tick) bool, now time.Time,
) tick.Found {
	if (after != tick.Spot{}) {
		n, found := slices.BinarySearchFunc(all, after, order)
		if found {
			n++
		}
		all = all[n:]
	}
	var read []tick.Tick
	for _, at := range all[:min(len(all), limit)] {
		t, _ := b.row(at.Job, at.At)
		read = append(read, b.told(t, now))
	}
	return tick.Ended(read, limit, keep)
}
