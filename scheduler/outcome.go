package scheduler

import (
	"context"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// outcomes records how ticks and runs ended.
type outcomes struct {
	b      *Backend
	reaper *reaper
}

// close records an outcome and returns what it means to hooks: nothing new if this process, whose earlier request
// may have gone unanswered, or another one already knew it. late means that the report comes after its lease was
// lost: others may have concluded, and reported, that the run crashed. The store decides whether they did: the
// report is first sent as a conclusion of this process, which is accepted only if there was none.
func (o *outcomes) close(ctx context.Context, req tick.CloseRequest, late bool) (a tick.Answer, what news, err error) {
	what = freshNews
	if late && req.Run.ID != "" && o.b.told() {
		guess := tick.CloseRequest{Run: req.Run, Claim: req.Claim}
		guess.Run.Inferred, guess.Run.Reason = true, o.reaper.concluded(req.Run.Reason)
		if a, err = o.b.Book.Close(ctx, guess); err != nil {
			return a, noNews, err
		}
		if what, err = o.newsOf(ctx, a, guess.Run); err != nil {
			return a, noNews, err
		}
	}
	if a, err = o.b.Book.Close(ctx, req); err != nil || a.Status != tick.Won {
		what = noNews
	}
	return a, what, err
}

// newsOf returns what a late report is, from what happened to its conclusion.
func (o *outcomes) newsOf(ctx context.Context, a tick.Answer, guess run.Record) (news, error) {
	mine, err := o.reaper.stands(ctx, a, guess)
	if mine || err != nil {
		return freshNews, err
	}
	crashed := a.Tick.RunID == guess.ID && a.Tick.Inferred && a.Tick.Outcome == run.Crashed // of its own: not run again
	if guess.Tick.IsZero() {
		there, ok, err := o.reaper.runOf(ctx, guess.ID)
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
