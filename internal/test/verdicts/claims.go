package verdicts

import (
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func claims() []Case {
	var (
		past, future = Ago(1), Now.Add(time.Hour)
		below        = tick.Job{Generation: 1, Mark: Ago(60)} // the mark lies below the tick
		above        = tick.Job{Generation: 1, Mark: Ago(5)}
		at           = tick.Job{Generation: 1, Mark: At}
		second       = tick.Job{Generation: 2, Mark: Ago(60)}
		removed      = tick.Job{Generation: 1, Mark: Ago(60), Removed: Ago(20)}
		pausing      = tick.Job{Generation: 1, Mark: Ago(60), Pause: tick.Pause{Since: Ago(0)}}
		resumed      = tick.Job{Generation: 1, Mark: Ago(60), Pause: tick.Pause{Since: Ago(10), Until: Ago(9), Resumed: true}}
		mine         = tick.ClaimRequest{Lease: Mine}
		over         = tick.ClaimRequest{Lease: Mine, Outcome: run.Skipped, Reason: run.ReasonOverlap}
		with         = func(r tick.ClaimRequest, change func(*tick.ClaimRequest)) *tick.ClaimRequest { change(&r); return &r }
		late         = func(r *tick.ClaimRequest) { r.NotAfter = past }
		filling      = func(r *tick.ClaimRequest) { r.Fill = true }
		of           = func(generation int64) func(*tick.ClaimRequest) {
			return func(r *tick.ClaimRequest) { r.Generation = generation }
		}
	)
	return []Case{
		{Name: "a tick that is free", Claim: &mine, Want: tick.Won, Tick: true},
		{Name: "a tick that is free, closed at once", Claim: &over, Want: tick.Won, Tick: true},
		{Name: "in time", Claim: with(mine, func(r *tick.ClaimRequest) { r.NotAfter = future }),
			Want: tick.Won, Tick: true},
		{Name: "past its not_after", Claim: with(mine, late), Want: tick.Late},
		{Name: "under a lapsed lease", Claim: &tick.ClaimRequest{Lease: Dead}, Want: tick.Lapsed},
		{Name: "under a lapsed lease, closed at once", Claim: &tick.ClaimRequest{Lease: Dead, Outcome: run.Skipped},
			Want: tick.Lapsed},
		{Name: "far ahead", Claim: with(mine, func(r *tick.ClaimRequest) { r.At = future }), Want: tick.Early},
		{Name: "ahead within the tolerance", Claim: with(mine, func(r *tick.ClaimRequest) { r.At, r.Ahead = future, 2*time.Hour }),
			Want: tick.Won, Tick: true},

		{Name: "repeated", Claim: &mine, Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Won},
		{Name: "repeated late", Claim: with(mine, late), Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Won},
		{Name: "repeated after its lease lapsed", Claim: &tick.ClaimRequest{Lease: Dead},
			Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Won},
		{Name: "repeated with its outcome", Claim: &over,
			Facts: tick.Facts{Tick: closedBy(Mine, run.Skipped)}, Want: tick.Won},
		{Name: "repeated once the mark has passed", Claim: &over,
			Facts: tick.Facts{Tick: closedBy(Mine, run.Skipped), Job: above}, Want: tick.Won},
		{Name: "of one's own, with an outcome", Claim: &over,
			Facts: tick.Facts{Tick: claimedBy(Mine)}, Want: tick.Taken},
		{Name: "of one's own, with another outcome", Claim: &over,
			Facts: tick.Facts{Tick: closedBy(Mine, run.Missed)}, Want: tick.Taken},
		{Name: "of one's own that has ended", Claim: &mine,
			Facts: tick.Facts{Tick: closedBy(Mine, run.Skipped)}, Want: tick.Taken},
		{Name: "of one's own that has started", Claim: &mine,
			Facts: tick.Facts{Tick: startedBy(Mine), Run: runOf(Mine, "")}, Want: tick.Taken},
		{Name: "of another's", Claim: &mine, Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Taken},
		{Name: "of a dead one's", Claim: &mine, Facts: tick.Facts{Tick: claimedBy(Dead)}, Want: tick.Taken},
		{Name: "of another's, late", Claim: with(mine, late),
			Facts: tick.Facts{Tick: claimedBy(Theirs)}, Want: tick.Late},
		{Name: "of another's, of a job that changed", Claim: with(mine, of(1)),
			Facts: tick.Facts{Tick: claimedBy(Theirs), Job: second}, Want: tick.Taken},

		{Name: "above the mark", Claim: with(mine, of(1)), Facts: tick.Facts{Job: below}, Want: tick.Won, Tick: true},
		{Name: "at the mark", Claim: &mine, Facts: tick.Facts{Job: at}, Want: tick.Settled},
		{Name: "below the mark", Claim: with(mine, of(1)), Facts: tick.Facts{Job: above}, Want: tick.Settled},
		{Name: "below the mark, of another generation", Claim: with(mine, of(7)),
			Facts: tick.Facts{Job: above}, Want: tick.Settled},
		{Name: "filling below the mark", Claim: with(mine, filling),
			Facts: tick.Facts{Job: above}, Want: tick.Won, Tick: true},
		{Name: "filling what is settled", Claim: with(mine, filling),
			Facts: tick.Facts{Tick: settled(run.Missed), Job: above}, Want: tick.Taken},
		{Name: "of an old generation", Claim: with(mine, of(1)), Facts: tick.Facts{Job: second}, Want: tick.Differs},
		{Name: "of any generation", Claim: &mine, Facts: tick.Facts{Job: second}, Want: tick.Won, Tick: true},
		{Name: "of a generation, not registered", Claim: with(mine, of(1)), Want: tick.Differs},
		{Name: "of a generation that was removed", Claim: with(mine, of(1)),
			Facts: tick.Facts{Job: removed}, Want: tick.Differs},
		{Name: "of any generation, removed", Claim: &mine,
			Facts: tick.Facts{Job: removed}, Want: tick.Won, Tick: true},
		{Name: "in a pause", Claim: &mine, Facts: tick.Facts{Job: pausing}, Want: tick.Paused},
		{Name: "in a pause, late", Claim: with(mine, late), Facts: tick.Facts{Job: pausing}, Want: tick.Late},
		{Name: "in a pause, under a lapsed lease", Claim: &tick.ClaimRequest{Lease: Dead},
			Facts: tick.Facts{Job: pausing}, Want: tick.Paused},
		{Name: "in a pause, closed at once", Claim: &over,
			Facts: tick.Facts{Job: pausing}, Want: tick.Won, Tick: true},
		{Name: "of a pause that has ended", Claim: &mine, Facts: tick.Facts{Job: resumed}, Want: tick.Paused},
		{Name: "before a pause that has ended", Claim: with(mine, func(r *tick.ClaimRequest) { r.At = Ago(30) }),
			Facts: tick.Facts{Job: resumed}, Want: tick.Won, Tick: true},
	}
}
