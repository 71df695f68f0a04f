package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ticks is b's side of tick.Store.
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

// live says whether ref is a live hold: what every claim and start stands on.
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
	return step(ctx, k.b, func(now time.Time) []tick.Answer { return each(reqs, now, k.b.claim) })
}

func (b *Backend) claim(req tick.ClaimRequest, now time.Time) tick.Answer {
	s := b.mayClaim(req, now)
	if _, found := b.row(req.Job, req.At); s == tick.Won && !found {
		b.putRow(claimed(req, now))
	}
	return b.answer(s, req.Job, req.At, now)
}

// mayClaim decides: first wins for ever, and only above the mark (rule T4).
func (b *Backend) mayClaim(req tick.ClaimRequest, now time.Time) tick.Status {
	row, found := b.row(req.Job, req.At)
	job, registered := b.jobs[req.Job]
	switch {
	case found && row.Lease == req.Lease && row.RunID == "" && row.Outcome == req.Outcome:
		return tick.Won // the answer to its first request was lost
	case late(now, req.NotAfter):
		return tick.Late
	case found:
		return tick.Taken
	case registered && !req.Fill && !req.At.After(job.Mark):
		return tick.Settled
	case req.Generation != 0 && (job.Generation != req.Generation || !job.Removed.IsZero()):
		return tick.Differs
	case req.At.After(now.Add(req.Ahead)):
		return tick.Early
	case req.Outcome == "" && job.Pause.Stops(req.At, now):
		return tick.Paused
	case !b.live(req.Lease, now):
		return tick.Lapsed
	}
	return tick.Won
}

func claimed(req tick.ClaimRequest, now time.Time) tick.Tick {
	t := tick.Tick{Job: req.Job, At: micro(req.At), State: tick.Claimed, Lease: req.Lease,
		Claimant: req.Claimant, Claimed: now}
	if req.Outcome != "" {
		t.State, t.Outcome, t.Reason, t.Ended = tick.Closed, req.Outcome, req.Reason, now
	}
	return t
}

func (k ticks) Take(ctx context.Context, req tick.TakeRequest) (tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) tick.Answer {
		return k.b.answer(k.b.take(req, now), req.Job, req.At, now)
	})
}

func (b *Backend) take(req tick.TakeRequest, now time.Time) tick.Status {
	row, found := b.row(req.Job, req.At)
	switch {
	case found && row.State == tick.Claimed && row.Lease == req.Lease:
		return tick.Won // repeated
	case late(now, req.NotAfter):
		return tick.Late
	case !found || row.Lease != req.From || !takeable(row, req, b.live(row.Lease, now)):
		return tick.Taken
	case !b.live(req.Lease, now):
		return tick.Lapsed
	}
	if row.State == tick.Started {
		b.infer(row.RunID, now)
	}
	// The row forgets its run: whatever that still reports concerns the run alone (rule T3).
	next := tick.Tick{Job: row.Job, At: row.At, State: tick.Claimed, Lease: req.Lease,
		Claimant: req.Claimant, Claimed: now, Reruns: row.Reruns}
	if req.Rerun {
		next.Reruns++
	}
	b.putRow(next)
	return tick.Won
}

// takeable is rule T2 for a claim that started nothing, rule T3 for what may be run again, and rule
// T4 for what never ran.
func takeable(row tick.Tick, req tick.TakeRequest, live bool) bool {
	switch {
	case req.Fill:
		return row.Fillable()
	case row.State == tick.Claimed:
		return !req.Rerun && !live
	case row.State == tick.Started:
		return req.Rerun && !live
	}
	return req.Rerun && (row.Outcome == run.Lost || row.Outcome == run.Crashed || row.Outcome == run.Canceled)
}

// infer concludes that a run which nobody heard of any more has crashed.
func (b *Backend) infer(id string, now time.Time) {
	if r := b.runs[id]; r != nil && r.Outcome == "" {
		r.Outcome, r.Inferred, r.Ended = run.Crashed, true, now
	}
}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	return step(ctx, k.b, func(now time.Time) []tick.Answer {
		return each(reqs, now, func(req tick.StartRequest, now time.Time) tick.Answer {
			return k.b.answer(k.b.start(req, now), req.Run.Job, req.Run.Tick, now)
		})
	})
}

func (b *Backend) start(req tick.StartRequest, now time.Time) tick.Status {
	old := b.runs[req.Run.ID]
	repeated := old != nil
	row, found := b.row(req.Run.Job, req.Run.Tick)
	ticked := !req.Run.Tick.IsZero()
	switch {
	case repeated && old.Outcome == "" && old.Owner == req.Lease.Owner && old.Token == req.Lease.Token:
		return tick.Won
	case late(now, req.NotAfter):
		return tick.Late
	case repeated, ticked && (!found || row.State != tick.Claimed || row.Lease != req.Claim):
		return tick.Taken
	case !b.live(req.Lease, now), !ticked && req.Claim != lease.Ref{} && !b.live(req.Claim, now):
		return tick.Lapsed
	}
	if ticked {
		row.State, row.Lease, row.RunID, row.Started = tick.Started, req.Lease, req.Run.ID, now
		b.putRow(row)
	}
	b.putRun(started(req, now))
	return tick.Won
}

func started(req tick.StartRequest, now time.Time) run.Record {
	r := instants(req.Run)
	r.Owner, r.Token = req.Lease.Owner, req.Lease.Token
	r.Outcome, r.Reason, r.Inferred, r.Ended = "", "", false, time.Time{}
	if r.Started.IsZero() {
		r.Started = now
	}
	return r
}

// instants copies a run with all its instants as the store keeps them.
func instants(r run.Record) run.Record {
	r.Tick, r.Started, r.Ended = micro(r.Tick), micro(r.Started), micro(r.Ended)
	r.Attempts = slices.Clone(r.Attempts)
	if r.Cause != nil {
		c := *r.Cause
		r.Cause, c.Again = &c, micro(c.Again)
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Started, a.Ended = micro(a.Started), micro(a.Ended)
	}
	return r
}

func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	return step(ctx, k.b, func(now time.Time) tick.Found {
		var open []tick.Spot
		for _, name := range k.b.named(l.Job, l.Prefix) {
			for us := range k.b.ticks[name].open {
				open = append(open, tick.Spot{Job: name, At: micro(time.UnixMicro(us))})
			}
		}
		slices.SortFunc(open, byJob)
		return k.b.looked(open, l.After, l.Max(), byJob, tick.Dead, now)
	})
}

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
