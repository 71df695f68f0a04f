package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func (p *Place) tell(h Happening) {
	if h.On != "" {
		p.aside(len(h.Output), func(hooks Hooks) { hooks.Tell(h) },
			"on", h.On, "job", h.Job, "tick", stamp(h.Tick), "run_id", h.Run.ID)
	}
}

// tellStart tells that a run begins; over is to be called when it has ended.
func (p *Place) tellStart(r run.Record) (over func()) {
	done := make(chan struct{})
	p.tell(Happening{On: job.OnStart, Job: r.Job, Tick: r.Tick, Run: r, Over: done})
	return sync.OnceFunc(func() { close(done) })
}

// tellEnd tells of an outcome that the store has taken from this process.
func (p *Place) tellEnd(r run.Record, heldBy string, output []byte) {
	on, ok := eventOf(r.Outcome, r.Reason)
	if !ok || r.ID == "" && r.Outcome.Ran() { // that run's end was told when the tick was taken over
		return
	}
	h := Happening{On: on, Job: r.Job, Tick: r.Tick, Outcome: r.Outcome, Reason: r.Reason, HeldBy: heldBy, Output: output}
	if r.ID != "" {
		h.Run = r
	}
	p.tell(h)
}

// tellCrash tells of a run whose tick this process has taken over, to run it again.
func (p *Place) tellCrash(t tick.Tick) {
	p.tellEnd(run.Record{ID: t.RunID, Job: t.Job, Tick: t.At, Owner: t.Lease.Owner, Token: t.Lease.Token, Host: t.Claimant.Host,
		Started: t.Started, Ended: p.now(), Outcome: run.Crashed, Inferred: true,
		Reason: fmt.Sprintf("%s is gone without a report; its tick is run again", t.Claimant)}, "", nil)
}

// take takes a tick over; it tells of the run that crashed, if there was one that nobody knew of.
func (p *Place) take(ctx context.Context, t tick.Tick, rerun bool) (tick.Answer, error) {
	a, err := p.Book.Take(ctx, t, rerun)
	if err != nil || a.Status != tick.Won || !rerun || t.State != tick.Started || p.Hooks == nil {
		return a, err
	}
	// Others may have concluded it since t was read, and then it is of their words.
	switch r, ok, err := p.runOf(ctx, t.RunID); {
	case err != nil:
		p.log().Warn("the reports of a crash to hooks are dropped", "job", t.Job, "tick", stamp(t.At), "run_id", t.RunID, "error", err)
	case ok && r.Outcome == run.Crashed && r.Inferred && r.Reason == "":
		p.tellCrash(t)
	}
	return a, nil
}

// runOf reads a run back.
func (p *Place) runOf(ctx context.Context, id string) (r run.Record, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Keeper.Margin().RPCTimeout)
	defer cancel()
	rows, err := p.History.Runs(ctx, history.Query{RunID: id, Limit: 1})
	if err != nil {
		return r, false, fmt.Errorf("read back the run %s: %w", id, err)
	}
	if len(rows) == 0 {
		return r, false, nil
	}
	return rows[0], true, nil
}

// news says what an outcome is to hooks, once the store has it.
type news uint8

const (
	noNews     news = iota // it was told, or whoever concluded it tells
	freshNews              // nobody knew of it
	betterNews             // it was taken for crashed, and told so, and had succeeded
)

// tellNews tells of an outcome as far as it is news.
func (p *Place) tellNews(what news, r run.Record, heldBy string, output []byte) {
	switch what {
	case freshNews:
		p.tellEnd(r, heldBy, output)
	case betterNews:
		p.tell(Happening{On: job.OnSuccess, Job: r.Job, Tick: r.Tick, Outcome: r.Outcome, Reason: r.Reason, Run: r, Output: output, Amends: run.Crashed})
	}
}

// close records an outcome and says what it is to hooks: nothing new where this process, whose request may
// have gone unanswered, or another one knew of it. late is of a report after its lease was lost: others
// may have concluded that the run crashed, and have told so. Whether they did is what the store
// decides: the report comes as a conclusion of ours first, which stands only if there was none.
func (p *Place) close(ctx context.Context, req tick.CloseRequest, late bool) (a tick.Answer, what news, err error) {
	what = freshNews
	if late && req.Run.ID != "" && p.Hooks != nil {
		guess := tick.CloseRequest{Run: req.Run, Claim: req.Claim}
		guess.Run.Inferred, guess.Run.Reason = true, p.concluded(req.Run.Reason)
		if a, err = p.Book.Close(ctx, guess); err != nil {
			return a, noNews, err
		}
		if what, err = p.newsOf(ctx, a, guess.Run); err != nil {
			return a, noNews, err
		}
	}
	if a, err = p.Book.Close(ctx, req); err != nil || a.Status != tick.Won {
		what = noNews
	}
	return a, what, err
}

// newsOf says what a late report is, by what became of its conclusion.
func (p *Place) newsOf(ctx context.Context, a tick.Answer, guess run.Record) (news, error) {
	mine, err := p.stands(ctx, a, guess)
	if mine || err != nil {
		return freshNews, err
	}
	crashed := a.Tick.RunID == guess.ID && a.Tick.Inferred && a.Tick.Outcome == run.Crashed // of its own: not run again
	if guess.Tick.IsZero() {
		there, ok, err := p.runOf(ctx, guess.ID)
		if err != nil {
			return noNews, err
		}
		crashed = ok && there.Inferred && there.Outcome == run.Crashed
	}
	if crashed && guess.Outcome == run.Succeeded {
		return betterNews, nil
	}
	return noNews, nil
}

// concluded is the reason of a conclusion, by which this process knows its own.
func (p *Place) concluded(reason string) string {
	return clean(fmt.Sprintf("%s (concluded by %s)", cmp.Or(reason, "it has ended"), p.Self))
}

// stands says whether a conclusion is the one that the store has: of several alike, whoever made one
// is told Won.
func (p *Place) stands(ctx context.Context, a tick.Answer, r run.Record) (bool, error) {
	switch {
	case a.Status != tick.Won:
		return false, nil
	case !r.Tick.IsZero():
		return a.Tick.RunID == r.ID && a.Tick.Inferred && a.Tick.Reason == r.Reason, nil
	}
	there, ok, err := p.runOf(ctx, r.ID)
	return ok && there.Inferred && there.Reason == r.Reason, err
}

// tellSettled tells of the ticks that this process has settled as missed: those rows that are there,
// and are its own. Rows may have been left out (see tick.Store), and are then another's.
func (p *Place) tellSettled(ctx context.Context, name string, rows []tick.Tick) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(t tick.Tick) bool { return t.Outcome != run.Missed })
	if len(rows) == 0 {
		return
	}
	const most, each = 1000, 100 // rows at a time, and bytes of a row
	for part := range slices.Chunk(rows, most) {
		p.aside(len(part)*each, func(hooks Hooks) {
			if hooks.Wants(name, job.OnMiss) {
				p.tellMissed(ctx, name, part, hooks.Tell)
			}
		}, "on", job.OnMiss, "job", name, "tick", stamp(part[0].At))
	}
}

// tellMissed reads back what was settled, within an rpc timeout.
func (p *Place) tellMissed(ctx context.Context, name string, rows []tick.Tick, tell func(Happening)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Keeper.Margin().RPCTimeout)
	defer cancel()
	until := rows[len(rows)-1].At.Add(time.Microsecond)
	there, err := p.History.Ticks(ctx, history.Query{Job: name, From: rows[0].At, To: until, Limit: settleBatch})
	if err != nil {
		p.log().Warn("the reports of missed ticks to hooks are dropped, because the settled ticks could not be read back", "job", name, "error", err)
		return
	}
	for _, t := range rows {
		if slices.ContainsFunc(there, func(o tick.Tick) bool {
			return o.At.Equal(t.At) && o.Through.Equal(t.Through) && o.Outcome == t.Outcome && o.Ended.Equal(t.Ended)
		}) {
			tell(Happening{On: job.OnMiss, Job: name, Tick: t.At, Through: t.Through, Count: t.Count, Outcome: t.Outcome,
				Reason: t.Reason})
		}
	}
}

// unrun collects ticks of one job that ended alike one by one, to be told of as one.
type unrun struct{ Happening }

func (u *unrun) add(name string, at time.Time, o run.Outcome, reason string) {
	if u.Count == 0 {
		u.Happening = Happening{Job: name, Tick: at, Outcome: o, Reason: reason}
		u.On, _ = eventOf(o, reason)
	}
	if u.Count++; at.Before(u.Tick) {
		u.Tick = at
	}
	if u.Count > 1 && at.After(u.Through) {
		u.Through = at
	}
}
